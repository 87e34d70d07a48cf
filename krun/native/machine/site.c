/* SPDX-License-Identifier: Apache-2.0
 *
 * Patching and undoing: see site.h. What a RIP at a site or in a trampoline means: siteplace.c.
 *
 * State: vm->sites, the pages KR_SYS_TABLE, KR_SYS_OWN and KR_SYS_SITES of the system area, under mm->lock.
 */
#include "site.h"
#include "hostmem.h"
#include "root.h"
#include "siteplace.h"
#include "usercopy.h"
#include "vma.h"
#include "../lib/kr_linux.h"

/* guest/engine.S */
extern const u8 kr_engine[], kr_engine_patched[], kr_engine_leave[];

static void put32(u8 *p, u64 v) {
    u32 low = (u32)v;
    memcpy(p, &low, sizeof low);
}

static void put64(u8 *p, u64 v) { memcpy(p, &v, sizeof v); }

/* ---- is it a site? ---- */

/* Whether the five bytes at b, with three bytes before them, are `mov $nr,%eax`, and not the end of another instruction: not
 * one with a REX prefix, nor one whose operands end in 0xb8 and four bytes (mov, test, cmp, imul with an immediate). */
static int is_number(const u8 *b, u32 nr) {
    u32 imm;
    memcpy(&imm, b + 1, sizeof imm);
    if (b[0] != 0xb8 || imm != nr || (b[-1] & 0xf0) == 0x40 || b[-1] == 0x66)
        return 0;
    for (int i = -3; i < 0; i++)
        if (b[i] == 0xc7 || b[i] == 0x69 || b[i] == 0x81 || b[i] == 0xf7)
            return 0;
    return 1;
}

/* Describes the site whose call returns to ret. 0 or -EINVAL. */
static int describe(struct kr_mm *mm, u64 ret, u32 nr, struct kr_site *s) {
    u8 b[16]; /* from ret - 10 on */
    if (ret < KR_WINDOW_START + KR_PAGE || kr_copy_in(b, ret - 10, sizeof b) < 0 || b[8] != 0x0f ||
        b[9] != 0x05)
        return -EINVAL;
    memset(s, 0, sizeof *s);
    if (is_number(b + 3, nr)) {
        s->form = KR_SITE_NUMBER;
        s->nr = nr;
    } else if (b[10] == 0x48 && b[11] == 0x3d) { /* cmp $imm,%rax */
        s->form = KR_SITE_COMPARE;
    } else {
        return -EINVAL;
    }
    u32 second = kr_site_second(s);
    s->at = ret - 2 - (s->form == KR_SITE_NUMBER ? second : 0);
    memcpy(s->was, s->form == KR_SITE_NUMBER ? b + 3 : b + 8, kr_site_length(s));
    struct kr_vma *v = kr_vma_find(mm, s->at);
    return v && v->start <= s->at && s->at + kr_site_length(s) <= v->end && (v->prot & PROT_EXEC) &&
                   !(v->prot & PROT_WRITE) && (v->flags & KR_VMA_IMAGE) &&
                   !(v->flags & (KR_VMA_SHARED | KR_VMA_ANON | KR_VMA_VDSO))
               ? 0
               : -EINVAL;
}

int kr_site_possible(struct kr_mm *mm, u64 ret, u32 nr) {
    struct kr_site s;
    return describe(mm, ret, nr, &s) == 0;
}

/* ---- writing ---- */

/* How many of the site's bytes lie in its first page. */
static u32 head_of(const struct kr_site *s) {
    return (u32)KR_MIN((u64)kr_site_length(s), KR_PAGE_DOWN(s->at) + KR_PAGE - s->at);
}

/* Whether the site's bytes [from, to) are these. They lie in one page; of a page that the file has lost (truncate(2)) nothing is. */
static int has(const struct kr_site *s, const u8 *bytes, u32 from, u32 to) {
    u8 now[8];
    return from < to && kr_copy_in(now, s->at + from, to - from) == 0 &&
           !memcmp(now, bytes + from, to - from);
}

/* Writes the site's bytes. Not where `only` is given and the page has other bytes than those. The second page first: a file that is cut
 * off loses its last page, and then nothing has changed. No vCPU has a translation of either page from before the first byte until
 * after the last one: another thread would jump by half a displacement. */
static int edit(struct kr_mm *mm, const struct kr_site *s, const u8 *bytes, const u8 *only) {
    u32 head = head_of(s), n = kr_site_length(s);
    u64 start = KR_PAGE_DOWN(s->at), end = KR_PAGE_UP(s->at + n);
    struct kr_vma *v = kr_vma_find(mm, s->at);
    if (!v || v->start > s->at) /* only after a death */
        return -ENOMEM;
    u32 prot = kr_mm_host_prot(v->prot);
    kr_pt_update(&mm->vm, start, end, 0, 0);
    long r = kr_host_protect(start, end - start, PROT_READ | PROT_WRITE);
    if (r == 0) {
        if (head < n && (!only || has(s, only, head, n)))
            r = kr_copy_out(s->at + head, bytes + head, n - head);
        if (only ? has(s, only, 0, head) : r == 0)
            r |= kr_copy_out(s->at, bytes, head);
        kr_host_protect(start, end - start, prot);
    }
    kr_mm_refill(mm, start, end);
    return r == 0 ? 0 : -ENOMEM;
}

/* Puts the original bytes back, in each page that has the patch's. */
static int restore(struct kr_mm *mm, const struct kr_site *s) {
    u32 head = head_of(s), n = kr_site_length(s);
    return has(s, s->now, 0, head) || has(s, s->now, head, n) ? edit(mm, s, s->was, s->now) : 0;
}

/* The trampoline of site i. */
static void write_trampoline(struct kr_vm *vm, u32 i, const struct kr_site *s) {
    u8 *p = vm->sys + KR_SYS_SITES + (u64)i * KR_SITE_SIZE;
    u64 at = KR_OWN_SITES + (u64)i * KR_SITE_SIZE,
        engine = KR_OWN_BASE + (u64)(kr_engine_patched - kr_engine);
    u64 ret = kr_site_after_call(s);
    memset(p, 0xcc, KR_SITE_SIZE);
    if (s->form == KR_SITE_NUMBER) {
        p[0] = 0xb8; /* mov $nr,%eax */
        put32(p + 1, s->nr);
        p[5] = 0x48; /* movabs $ret,%rcx */
        p[6] = 0xb9;
        put64(p + 7, ret);
        p[15] = 0xe9; /* jmp engine */
        put32(p + 16, engine - (at + 20));
    } else {
        p[0] = 0x48; /* lea tail(%rip),%rcx */
        p[1] = 0x8d;
        p[2] = 0x0d;
        put32(p + 3, KR_SITE_TAIL - 7);
        p[7] = 0xe9; /* jmp engine */
        put32(p + 8, engine - (at + 12));
        p += KR_SITE_TAIL;
        p[0] = 0x48; /* movabs $ret,%rcx */
        p[1] = 0xb9;
        put64(p + 2, ret);
        memcpy(p + 10, s->was + 2, 6); /* cmp $imm,%rax */
        p[16] = 0xff;                  /* jmp *0(%rip) */
        p[17] = 0x25;
        put32(p + 18, 0);
        put64(p + 22, s->at + kr_site_length(s));
    }
}

/* The jump of site i: its bytes. */
static void make_jump(u64 table, u32 i, struct kr_site *s) {
    s->now[0] = 0xff; /* jmp *disp32 */
    s->now[1] = 0x24;
    s->now[2] = s->form == KR_SITE_NUMBER ? 0x25 : 0xe5;
    put32(s->now + 3, table + i * 8);
    s->now[7] = 0x90;
}

/* ---- the first site ---- */

static int begin(struct kr_mm *mm) {
    struct kr_vm *vm = &mm->vm;
    if (vm->sites)
        return vm->sites->table ? 0 : -ENOSPC;
    u64 table = KR_SITE_TABLES;
    while (table < KR_SITE_TABLES_END && !kr_vma_range_free(mm, table, KR_PAGE))
        table += KR_PAGE;
    if (table == KR_SITE_TABLES_END)
        return -ENOSPC;
    struct kr_sites *sites = kr_alloc(sizeof *sites);
    if (!sites || kr_pt_sys(vm, table, KR_SYS_GPA + KR_SYS_TABLE, KR_PTE_U | KR_PTE_NX) < 0) {
        kr_free(sites, sizeof *sites);
        return -ENOMEM;
    }
    sites->table = table;
    u8 *own = vm->sys + KR_SYS_OWN;
    memcpy(own, vm->sys + KR_SYS_STUB, KR_PAGE);
    own[0] = 0xe9; /* jmp kr_engine_leave, in place of the OUT */
    put32(own + 1, (u64)(kr_engine_leave - kr_engine) - 5);
    vm->sites = sites;
    for (struct kr_vcpu *v = vm->vcpus; v; v = v->next) { /* their threads stand */
        if (kr_root_make(vm, v->idx) < 0)
            continue;
        v->run->s.regs.sregs.cr3 = kr_root(vm, v->idx);
        v->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
    }
    return 0;
}

static void index_again(struct kr_sites *sites) {
    memset(sites->find, 0, sizeof sites->find);
    for (u32 i = 0; i < sites->n; i++) {
        u32 h = kr_site_hash(kr_site_after_call(&sites->site[i]));
        while (sites->find[h])
            h = (h + 1) & (KR_SITE_FIND - 1);
        sites->find[h] = (u16)(i + 1);
    }
}

/* A place for s: its old one, a new one, or that of a site that is undone. */
static struct kr_site *place_for(struct kr_sites *sites, const struct kr_site *s) {
    struct kr_site *old = kr_site_find(sites, kr_site_after_call(s));
    if (old)
        return old;
    if (sites->n < KR_SITES)
        return &sites->site[sites->n++];
    for (u32 i = 0; i < KR_SITES; i++)
        if (!sites->site[i].live)
            return &sites->site[i];
    return NULL;
}

int kr_site_patch(struct kr_mm *mm, u64 ret, u32 nr) {
    struct kr_vm *vm = &mm->vm;
    struct kr_site s;
    int r = describe(mm, ret, nr, &s);
    if (!r)
        r = begin(mm);
    if (r < 0)
        return r;
    struct kr_site *to = place_for(vm->sites, &s);
    if (!to)
        return -ENOSPC;
    u32 i = (u32)(to - vm->sites->site);
    make_jump(vm->sites->table, i, &s);
    *to = s;
    index_again(vm->sites);
    write_trampoline(vm, i, &s);
    put64(vm->sys + KR_SYS_TABLE + i * 8, KR_OWN_SITES + (u64)i * KR_SITE_SIZE);
    r = edit(mm, &s, s.now, NULL);
    if (r < 0)
        restore(mm, &s);
    to->live = r == 0;
    return r;
}

/* ---- undoing ---- */

static int touches(const struct kr_site *s, u64 start, u64 end) {
    return s->live && s->at < end && s->at + kr_site_length(s) > start;
}

int kr_sites_undo(struct kr_mm *mm, u64 start, u64 end) {
    int r = 0;
    for (u32 i = 0; mm->vm.sites && i < mm->vm.sites->n; i++) {
        struct kr_site *s = &mm->vm.sites->site[i];
        if (!touches(s, start, end))
            continue;
        if (restore(mm, s) < 0)
            r = -ENOMEM;
        else
            __atomic_store_n(&s->live, 0, __ATOMIC_RELEASE);
    }
    return r;
}

void kr_sites_heir(struct kr_mm *mm) {
    struct kr_sites *sites = mm->vm.sites;
    if (!sites)
        return;
    for (u32 i = 0; i < sites->n; i++) {
        struct kr_site *s = &sites->site[i];
        u8 bytes[8];
        u32 n = kr_site_length(s), mixed = 0;
        if (!s->live || kr_copy_in(bytes, s->at, n) < 0)
            continue;
        while (mixed < n && (bytes[mixed] == s->now[mixed] || bytes[mixed] == s->was[mixed]))
            mixed++;
        if (mixed == n && memcmp(bytes, s->now, n) && edit(mm, s, s->was, NULL) == 0)
            __atomic_store_n(&s->live, 0, __ATOMIC_RELEASE);
    }
    if (sites->table) /* inside kr_sites_make_room */
        kr_pt_sys(&mm->vm, sites->table, KR_SYS_GPA + KR_SYS_TABLE, KR_PTE_U | KR_PTE_NX);
    kr_vm_flush(&mm->vm);
}

int kr_sites_make_room(struct kr_mm *mm, u64 start, u64 end) {
    struct kr_sites *sites = mm->vm.sites;
    if (!sites || !sites->table || sites->table >= end || sites->table + KR_PAGE <= start)
        return 0;
    if (kr_sites_undo(mm, 0, KR_WINDOW_END) < 0)
        return -ENOMEM;
    kr_pt_update(&mm->vm, sites->table, sites->table + KR_PAGE, 0, 0);
    sites->table = 0;
    kr_vm_flush(&mm->vm); /* no memory of the window was there, so no notifier runs */
    return 0;
}

void kr_sites_forget(struct kr_mm *mm, u64 start, u64 end) {
    for (u32 i = 0; mm->vm.sites && i < mm->vm.sites->n; i++)
        if (touches(&mm->vm.sites->site[i], start, end))
            __atomic_store_n(&mm->vm.sites->site[i].live, 0, __ATOMIC_RELEASE);
}

int kr_sites_any(const struct kr_mm *mm, u64 addr, u64 n) {
    for (u32 i = 0; mm->vm.sites && i < mm->vm.sites->n; i++)
        if (touches(&mm->vm.sites->site[i], addr, addr + n))
            return 1;
    return 0;
}

int kr_site_edge(const struct kr_mm *mm, u64 addr) {
    for (u32 i = 0; mm->vm.sites && i < mm->vm.sites->n; i++) {
        const struct kr_site *s = &mm->vm.sites->site[i];
        if (addr == KR_PAGE_DOWN(s->at) || addr == KR_PAGE_UP(s->at + kr_site_length(s)))
            return 1;
    }
    return 0;
}

/* Goes by the bytes: the site may be undone between the copy and this. */
void kr_sites_original(const struct kr_mm *mm, u64 addr, void *buf, u64 n) {
    for (u32 i = 0; mm->vm.sites && i < mm->vm.sites->n; i++) {
        const struct kr_site *s = &mm->vm.sites->site[i];
        u64 from = KR_MAX(addr, s->at), to = KR_MIN(addr + n, s->at + kr_site_length(s));
        u8 *copy = (u8 *)buf + (from - addr);
        if (from < to && !memcmp(copy, s->now + (from - s->at), to - from))
            memcpy(copy, s->was + (from - s->at), to - from);
    }
}
