/* SPDX-License-Identifier: Apache-2.0
 * machine/site.c, machine/siteplace.c, machine/root.c, guest/engine_patched.inc. A patched site, its trampoline and the code
 * are plain ring-3 code at addresses that a process may have, so a site runs here from its jump to its return, one
 * instruction at a time (TF). At each instruction the monitor's reading of RIP gives the registers of the call, or those
 * behind it.
 * Sources: site.c siteplace.c root.c engine.S callpage.c mm.c vma.c change.c remap.c segment.c advise.c pt.c slots.c warm.c
 * hostmem.c kr_alloc.c
 */
#include "stepping.h"
#include "machine/root.h"
#include "machine/siteplace.h"
#include "machine/usercopy.h"
#include "machine/vma.h"
#include "table/rows.h"
#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#define POOL (2 * KR_PT_SLOT)
#define TEXT 0x210000000000ULL
#define TEXT_PAGES 8

extern const u8 kr_engine[], kr_engine_flags_read[], kr_engine_left[];

int kr_fd_hidden(u64 fd) { return (void)fd, 0; }
int kr_pt_back(struct kr_vm *vm) { return vm->pt_backed < POOL ? vm->pt_backed += KR_PT_STEP, 0 : -ENOMEM; }
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    return (void)p, (void)old, (void)new_value, (void)seen, -EFAULT;
}

static struct kr_mm *mm;
static struct kr_fact_page *fact;
static struct kr_call_page *call;
static volatile struct kr_patched *patched;
static u8 *sys;
static int memory; /* the system area */

/* ---- one run of a site ---- */

static struct kvm_regs before, behind;
static u64 begin_at, second, ret; /* the entry, the second instruction and the end of the site */
static volatile u32 looked;

/* What the monitor makes of r (local/local.c). */
static enum kr_place reading(struct kvm_regs *r) {
    u64 save[16];
    memcpy(save, call->save, sizeof save);
    if (r->rip >= KR_OWN_SITES)
        return kr_site_place(&mm->vm, r);
    enum kr_place place = kr_engine_place(KR_OWN_BASE, r->rip);
    if (place == KR_PLACE_AFTER) {
        kr_engine_end(save, call->result, r);
        r->rip = r->rcx = kr_site_return(&mm->vm, r->rcx);
    } else if (place == KR_PLACE_PATCHED) {
        kr_engine_undo_patched(save, patched->rsp, KR_OWN_BASE, r);
    } else {
        kr_engine_undo(save, KR_OWN_BASE, r);
    }
    return place;
}

static void look(const struct kvm_regs *r) {
    struct kvm_regs fixed = *r, want;
    enum kr_place place = reading(&fixed);
    fixed.rcx = kr_site_return(&mm->vm, fixed.rcx);
    fixed.r11 &= ~TF;
    CHECK(place != KR_PLACE_ELSE);
    want = place == KR_PLACE_AFTER ? behind : before;
    want.rip = place != KR_PLACE_AFTER ? fixed.rip : fixed.rip == ret ? ret : second;
    same(place == KR_PLACE_AFTER ? "after" : "before", &fixed, &want, 0);
    looked |= 1u << place;
}

static void on_signal(int sig, siginfo_t *info, void *ctx) {
    struct ucontext *u = ctx;
    struct sigcontext_64 *s = (struct sigcontext_64 *)&u->uc_mcontext;
    (void)info;
    if (begins(sig, u, begin_at, start.rflags))
        return;
    to_kvm(s, &now);
    int own = s->ip >= KR_OWN_BASE && s->ip < KR_OWN_END;
    if (s->ip == ret) {
        end = RETURNED;
    } else if (sig == SIGILL && s->ip == kr_engine_left_by() - 2) {
        end = EXITED;
    } else if ((sig == SIGSEGV || sig == SIGILL) && s->ip == second) {
        end = FAULTED;
    } else if (sig == SIGTRAP && own && steps < 200) {
        look(&now);
        if (s->ip == KR_OWN_BASE + (u64)(kr_engine_flags_read - kr_engine))
            s->r11 &= ~TF; /* the call itself is not stepped */
        steps++;
        return;
    } else {
        end = LOST;
        printf("lost: signal %d at 0x%llx\n", sig, (unsigned long long)s->ip);
    }
    go_home(u);
}

static void random_registers(void) {
    u64 *x = (u64 *)&start;
    for (u32 i = 0; i < 16; i++)
        x[i] = kr_test_random() << 11 ^ kr_test_random();
    start.rsp = (u64)(stack + STACK_WORDS) - 64;
    start.rflags = (kr_test_random() & ARITHMETIC) | KR_FLAGS_FIXED;
}

static void *at_place(u64 at, u64 off, u64 size, u32 prot) {
    long r = kr_sys6(__NR_mmap, at, size, prot, MAP_SHARED | (at ? MAP_FIXED : 0), (u64)memory, off);
    CHECK(r > 0);
    return (void *)r;
}

/* ---- the text ---- */

static u8 truth[TEXT_PAGES * KR_PAGE];
static u32 used;

static void executable(int yes) { /* on the host the payload's text never is */
    CHECK_EQ(kr_sys3(__NR_mprotect, TEXT, sizeof truth, PROT_READ | (yes ? PROT_EXEC : 0)), 0);
}

/* Adds bytes to the text, and UD2 behind them. Returns their address. */
static u64 put(const void *bytes, u32 n) {
    memcpy(truth + used, bytes, n);
    truth[used + n] = 0x0f;
    truth[used + n + 1] = 0x0b;
    used += n + 2;
    return TEXT + used - n - 2;
}

/* Returns the file. */
static long map_text(void) {
    long fd = kr_sys2(__NR_memfd_create, "text", 0);
    CHECK_EQ(kr_sys3(__NR_write, fd, truth, sizeof truth), sizeof truth);
    CHECK_EQ(kr_mm_mmap(mm, TEXT, sizeof truth, PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE, (int)fd, 0),
             TEXT);
    return fd;
}

static int patch(u64 after_call, u32 nr) {
    kr_lock(&mm->lock);
    int possible = kr_site_possible(mm, after_call, nr), r = kr_site_patch(mm, after_call, nr);
    kr_unlock(&mm->lock);
    CHECK_EQ(possible, r != -EINVAL);
    return r;
}

static const u8 number[] = {0xb8, __NR_getpid, 0, 0, 0, 0x0f, 0x05},
                compare[] = {0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff};

/* The site at `at`, completed or not, run and stepped. */
static void one(u64 at, enum kr_site_form form) {
    u64 after_call = at + (form == KR_SITE_NUMBER ? 7 : 2);
    second = at + (form == KR_SITE_NUMBER ? 5 : 2);
    ret = at + (form == KR_SITE_NUMBER ? sizeof number : sizeof compare);
    begin_at = at;
    random_registers();
    if (form == KR_SITE_COMPARE)
        start.rax = __NR_getpid | kr_test_random() << 32;
    fact->fact[3] = kr_test_below(3) ? kr_test_random() : (u64)-kr_test_below(5000);
    int on = kr_test_below(4) != 0, known = kr_test_below(4) != 0, flags = kr_test_below(8) == 0;
    fact->on = (u32)on;
    fact->way[__NR_getpid] = known ? (u8)(KR_WAY_FACT | 3 << KR_WAY_SHIFT) : 0;
    if (flags)
        start.rflags |= 0x400; /* DF */
    before = start;
    before.rax = form == KR_SITE_NUMBER ? __NR_getpid : start.rax;
    before.rcx = after_call;
    before.r11 = start.rflags;
    behind = before;
    behind.rax = fact->fact[3];
    behind.rip = after_call;
    for (mode = RUN; mode <= STEP; mode++) {
        end = NOTHING;
        steps = 0;
        call->save[KR_SAVE_RCX] = kr_test_random();
        go();
        if (on && known && !flags) {
            CHECK_EQ(end, RETURNED);
            same("returned", &now, (behind.rip = ret, &behind), 0);
            u64 want;
            if (form == KR_SITE_COMPARE)
                __asm__("cmp $-4095,%1; pushf; pop %0" : "=r"(want) : "r"(behind.rax) : "cc");
            else
                want = start.rflags;
            CHECK_EQ(now.rflags & ARITHMETIC, want & ARITHMETIC);
        } else {
            CHECK_EQ(end, EXITED);
            CHECK_EQ(patched->ret, form == KR_SITE_NUMBER ? after_call : now.rcx);
            CHECK_EQ(kr_site_return(&mm->vm, patched->ret), after_call);
            CHECK_EQ(patched->flags & ~TF, start.rflags);
            now.rcx = after_call;
            now.r11 &= ~TF;
            before.rip = now.rip;
            same("exited", &now, &before, 0);
        }
        for (u32 i = 0; i < STACK_WORDS; i++)
            CHECK_EQ(stack[i], 0x5a5a5a5a5a5a5a5aULL);
    }
}

static void middle(u64 at, enum kr_site_form form) {
    begin_at = second = at + (form == KR_SITE_NUMBER ? 5 : 2);
    ret = 0;
    mode = RUN;
    for (u32 round = 0; round < 300; round++) {
        static const u64 edges[] = {0,        1,        4095,       -1ULL,        -4095ULL,
                                    -4096ULL, -4097ULL, 1ULL << 63, ~(1ULL << 63)};
        random_registers();
        start.rax =
            kr_test_below(2) ? kr_test_random() << kr_test_below(60) : edges[kr_test_below(KR_COUNT(edges))];
        if (form == KR_SITE_NUMBER)
            start.rax = kr_test_random(); /* the number of any call, or of none */
        end = NOTHING;
        steps = 0;
        go();
        CHECK_EQ(end, FAULTED);
        struct kvm_regs r = now, want = start;
        r.rflags &= ~0x10000ULL; /* RF, of the fault */
        same("second", &r, (want.rip = second, &want), 0);
        enum kr_middle m = kr_site_middle(&mm->vm, form == KR_SITE_NUMBER ? VEC_UD : VEC_GP, &r);
        if (form == KR_SITE_NUMBER) {
            CHECK_EQ(m, KR_MIDDLE_CALL);
            want.rcx = at + sizeof number;
            want.r11 = start.rflags;
            same("middle", &r, &want, 0);
        } else {
            u64 flags;
            CHECK_EQ(m, KR_MIDDLE_DONE);
            __asm__("cmp $-4095,%1; pushf; pop %0" : "=r"(flags) : "r"(start.rax) : "cc");
            CHECK_EQ(r.rflags & ARITHMETIC, flags & ARITHMETIC);
            same("middle", &r, (want.rip = at + sizeof compare, &want), 0);
            r = start;
            r.rip = second;
            kr_site_enter(&mm->vm, &r);
            CHECK_EQ(r.rflags & ARITHMETIC, flags & ARITHMETIC);
            same("entered", &r, &want, 0);
            r.rip = second;
            r.rflags |= TF;
            kr_site_enter(&mm->vm, &r);
            CHECK_EQ(r.rip, second);
        }
    }
    struct kvm_regs r = start;
    r.rip = second;
    CHECK_EQ(kr_site_middle(&mm->vm, form == KR_SITE_NUMBER ? VEC_GP : VEC_UD, &r), KR_MIDDLE_NO);
    r.rip = second + 1;
    CHECK_EQ(kr_site_middle(&mm->vm, form == KR_SITE_NUMBER ? VEC_UD : VEC_GP, &r), KR_MIDDLE_NO);
}

/* What the text says to the guest is what it has been. */
static void check_text(int is_patched) {
    u8 copy[sizeof truth];
    memcpy(copy, (void *)TEXT, sizeof copy);
    CHECK_EQ(memcmp(copy, truth, sizeof copy) != 0, is_patched);
    for (u64 from = 0; from < 64; from++) { /* parts of a site, too */
        u8 part[16];
        memcpy(part, (u8 *)TEXT + from, sizeof part);
        kr_sites_original(mm, TEXT + from, part, sizeof part);
        CHECK(!memcmp(part, truth + from, sizeof part));
    }
    kr_sites_original(mm, TEXT, copy, sizeof copy);
    CHECK(!memcmp(copy, truth, sizeof copy));
}

static void runs(void) {
    u8 nops[KR_PAGE];
    memset(nops, 0x90, sizeof nops);
    put(nops, 16);
    u64 a = put(number, sizeof number);
    put(nops, KR_PAGE - 4 - used);
    u64 b = put(compare, sizeof compare); /* over the edge of a page */
    put(nops, 16);
    kr_sys1(__NR_close, map_text());
    CHECK_EQ(patch(a + 7, __NR_getpid + 1), -EINVAL);
    CHECK_EQ(patch(a + 6, __NR_getpid), -EINVAL);
    CHECK_EQ(patch(a + 7, __NR_getpid), 0);
    CHECK_EQ(patch(b + 2, 1), 0);
    CHECK_EQ(patch(b + 2, 1), -EINVAL); /* it is a jump now */
    memcpy((void *)(KR_OWN_BASE + (u64)(kr_engine_left - kr_engine) - 2), "\x0f\x0b",
           2); /* in place of SYSCALL */
    CHECK_EQ(kr_sys3(__NR_mprotect, KR_OWN_BASE, KR_PAGE, PROT_READ | PROT_EXEC), 0);
    CHECK_EQ(mm->vm.sites->table, KR_SITE_TABLES);
    at_place(KR_SITE_TABLES, KR_SYS_TABLE, KR_PAGE, PROT_READ);
    CHECK_EQ(kr_pt_get(&mm->vm, KR_SITE_TABLES) & ~(KR_PTE_A | KR_PTE_D),
             (KR_SYS_GPA + KR_SYS_TABLE) | KR_PTE_P | KR_PTE_U | KR_PTE_NX);
    check_text(1);
    executable(1);
    for (u32 round = 0; round < 400; round++) {
        one(a, KR_SITE_NUMBER);
        one(b, KR_SITE_COMPARE);
    }
    CHECK_EQ(looked, 1u << KR_PLACE_BEFORE | 1u << KR_PLACE_PATCHED | 1u << KR_PLACE_AFTER |
                         (looked & 1u << KR_PLACE_OUT));
    middle(a, KR_SITE_NUMBER);
    middle(b, KR_SITE_COMPARE);
    struct kvm_regs r = {.rip = KR_OWN_SITES, .rax = 5};
    kr_site_stepped(&mm->vm, &r);
    CHECK_EQ(r.rip, a + 5);
    CHECK_EQ(r.rax, __NR_getpid);
    r.rip = KR_OWN_SITES + KR_SITE_SIZE; /* COMPARE: the step is the call */
    kr_site_stepped(&mm->vm, &r);
    CHECK_EQ(r.rip, KR_OWN_SITES + KR_SITE_SIZE);
    executable(0);
    /* The text becomes writable: it is what it was, and a fault of before finds that. */
    CHECK_EQ(kr_mm_mprotect(mm, TEXT, sizeof truth, PROT_READ | PROT_WRITE), 0);
    check_text(0);
    r.rip = a + 5;
    CHECK_EQ(kr_site_middle(&mm->vm, VEC_UD, &r), KR_MIDDLE_RETRY);
    CHECK_EQ(patch(a + 7, __NR_getpid), -EINVAL);
    CHECK_EQ(kr_mm_mprotect(mm, TEXT, sizeof truth, PROT_READ | PROT_EXEC), 0);
    CHECK_EQ(patch(a + 7, __NR_getpid), 0);
    CHECK_EQ(mm->vm.sites->n, 2);
    CHECK(kr_sites_any(mm, a + 6, 1) && !kr_sites_any(mm, a + 7, 1) && !kr_sites_any(mm, a - 1, 1));
    CHECK_EQ(kr_mm_madvise(mm, TEXT, KR_PAGE, MADV_DONTNEED), 0);
    CHECK(!kr_sites_any(mm, TEXT, sizeof truth));
    CHECK_EQ(patch(a + 7, __NR_getpid), 0);
    CHECK_EQ(
        kr_mm_mremap(mm, TEXT, sizeof truth, sizeof truth, MREMAP_MAYMOVE | MREMAP_FIXED, TEXT + (1 << 30)),
        TEXT + (1 << 30));
    CHECK(!memcmp((void *)(TEXT + (1 << 30)), truth, sizeof truth));
    CHECK_EQ(kr_mm_munmap(mm, TEXT + (1 << 30), sizeof truth), 0);
    kr_sys1(__NR_close, map_text());
    CHECK_EQ(patch(b + 2, 1), 0);
    CHECK_EQ(kr_mm_munmap(mm, TEXT, sizeof truth), 0);
    CHECK(!kr_sites_any(mm, TEXT, sizeof truth));
    CHECK_EQ(patch(b + 2, 1), -EINVAL);
}

/* What is no site, whatever the bytes before the SYSCALL look like; memory that is none of a loader's. */
static void refusals(void) {
    static const u8 forms[][16] = {
        {12, 0x41, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},             /* mov $39,%r8d */
        {13, 0xc7, 0x45, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},       /* movl $39,-72(%rbp) */
        {14, 0xc7, 0x44, 0x24, 0xb8, 39, 0, 0, 0, 0x0f, 0x05}, /* movl $39,-72(%rsp) */
        {13, 0x69, 0x7d, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},       /* imul $39,-72(%rbp),%edi */
        {13, 0x81, 0x7d, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},       /* cmpl $39,-72(%rbp) */
        {12, 0xf7, 0xb8, 39, 0, 0, 0, 0x0f, 0x05},
        {11, 0xb8, 40, 0, 0, 0, 0x0f, 0x05}, /* another number */
        {11, 0xb9, 39, 0, 0, 0, 0x0f, 0x05}, /* mov $39,%ecx */
        {6, 0x0f, 0x05, 0x3d},               /* cmp $imm,%eax */
    };
    u64 at[KR_COUNT(forms)];
    used = 0;
    put("\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 10);
    for (u32 i = 0; i < KR_COUNT(forms); i++) {
        u32 n = forms[i][0] - 4;
        at[i] = put(forms[i] + 1, n);
        put("\x90\x90\x90\x90\x90\x90", 6);
        at[i] += n;
    }
    u64 good = put(number, sizeof number) + sizeof number;
    kr_sys1(__NR_close, map_text());
    for (u32 i = 0; i < KR_COUNT(forms) - 1; i++)
        CHECK_EQ(patch(at[i], 39), -EINVAL);
    CHECK_EQ(patch(good, 39), 0);
    static const u32 flags[] = {MAP_PRIVATE, MAP_SHARED | MAP_DENYWRITE, MAP_PRIVATE | MAP_ANONYMOUS};
    for (u32 i = 0; i < KR_COUNT(flags); i++) {
        long fd = flags[i] & MAP_ANONYMOUS ? -1 : kr_sys2(__NR_memfd_create, "text", 0);
        if (fd >= 0)
            CHECK_EQ(kr_sys3(__NR_write, fd, truth, sizeof truth), sizeof truth);
        CHECK_EQ(kr_mm_mmap(mm, TEXT, sizeof truth, PROT_READ | PROT_WRITE, flags[i] | MAP_FIXED, (int)fd, 0),
                 TEXT);
        memcpy((void *)TEXT, truth, sizeof truth);
        CHECK_EQ(kr_mm_mprotect(mm, TEXT, sizeof truth, PROT_READ | PROT_EXEC), 0);
        CHECK_EQ(patch(good, 39), -EINVAL);
        if (fd >= 0)
            kr_sys1(__NR_close, fd);
    }
}

/* More sites than places: those of undone sites are used again. No entry makes the second instruction touch an open port. */
static void many(void) {
    u64 at[KR_SITES + 1];
    used = 0;
    put("\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 12);
    for (u32 i = 0; i <= KR_SITES; i++) {
        at[i] = put(compare, sizeof compare) + 2;
        put("\x90\x90\x90", 3);
        u32 port = (KR_SITE_TABLES + i * 8) & 0xff;
        CHECK(port + 3 < KR_PORT || port > KR_PORT);
    }
    kr_sys1(__NR_close, map_text());
    for (u32 i = 0; i < KR_SITES; i++)
        CHECK_EQ(patch(at[i], 1), 0);
    CHECK_EQ(patch(at[KR_SITES], 1), -ENOSPC);
    CHECK_EQ(kr_sites_undo(mm, at[100], at[100] + 1), 0);
    CHECK_EQ(patch(at[KR_SITES], 1), 0);
    CHECK_EQ(patch(at[100], 1), -ENOSPC);
    for (u32 i = 0; i <= KR_SITES; i++)
        CHECK_EQ(kr_site_find(mm->vm.sites, at[i]) != NULL, i != 100);
    CHECK_EQ(kr_mm_mprotect(mm, TEXT, sizeof truth, PROT_READ), 0);
    CHECK(!memcmp((void *)TEXT, truth, sizeof truth));
}

/* A relative was killed while it undid a site, or gave up the table. */
static void heir(void) {
    used = 0;
    put("\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 12);
    u64 at = put(compare, sizeof compare) + 2;
    kr_sys1(__NR_close, map_text());
    for (u32 n = 0; n <= sizeof compare; n++) {
        CHECK_EQ(patch(at, 1), 0);
        CHECK_EQ(kr_sys3(__NR_mprotect, TEXT, KR_PAGE, PROT_READ | PROT_WRITE), 0);
        memcpy((void *)(at - 2), compare, n); /* so many bytes were written */
        kr_pt_update(&mm->vm, TEXT, TEXT + KR_PAGE, 0, 0);
        kr_pt_update(&mm->vm, mm->vm.sites->table, mm->vm.sites->table + KR_PAGE, 0, 0);
        kr_lock(&mm->lock);
        kr_sites_heir(mm);
        kr_unlock(&mm->lock);
        CHECK_EQ(memcmp((void *)TEXT, truth, sizeof truth) != 0, n == 0);
        CHECK_EQ(kr_site_is_patched(&mm->vm, at), n == 0);
        CHECK(kr_pt_get(&mm->vm, mm->vm.sites->table) & KR_PTE_P);
        kr_lock(&mm->lock);
        CHECK_EQ(kr_sites_undo(mm, TEXT, TEXT + KR_PAGE), 0);
        kr_unlock(&mm->lock);
    }
}

/* The file is cut off in the middle of a site: the first page has its own bytes again once the site is undone. */
static void cut_off(void) {
    u8 is[KR_PAGE];
    for (u32 head = 1; head < sizeof compare; head++) {
        used = KR_PAGE - head - 3;
        memset(truth, 0x90, sizeof truth);
        u64 at = put("\x90\x90\x90", 3);
        memcpy(truth + KR_PAGE - head, compare, sizeof compare);
        long file = map_text();
        CHECK_EQ(patch(at + 3 + 2, 1), 0);
        CHECK_EQ(kr_sys2(__NR_ftruncate, file, KR_PAGE), 0);
        CHECK(kr_copy_in(is, TEXT, sizeof is) == 0 && memcmp(is, truth, sizeof is));
        kr_lock(&mm->lock);
        CHECK_EQ(kr_sites_undo(mm, TEXT, TEXT + 2 * KR_PAGE), 0);
        kr_unlock(&mm->lock);
        CHECK(kr_copy_in(is, TEXT, sizeof is) == 0 && !memcmp(is, truth, sizeof is));
        CHECK(!kr_sites_any(mm, TEXT, sizeof truth));
        kr_sys1(__NR_close, file);
    }
    memset(truth, 0x90, sizeof truth);
}

/* The payload maps something where the table is. */
static void room(void) {
    used = 0;
    put("\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 12);
    u64 at = put(compare, sizeof compare) + 2;
    kr_sys1(__NR_close, map_text());
    CHECK_EQ(patch(at, 1), 0);
    CHECK_EQ(kr_mm_mmap(mm, KR_SITE_TABLES - KR_PAGE, KR_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
             KR_SITE_TABLES - KR_PAGE);
    CHECK(kr_sites_any(mm, TEXT, sizeof truth));
    CHECK_EQ(kr_mm_mmap(mm, KR_SITE_TABLES - KR_PAGE, 2 * KR_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
             KR_SITE_TABLES - KR_PAGE);
    CHECK(!memcmp((void *)TEXT, truth, sizeof truth));
    CHECK(kr_pt_get(&mm->vm, KR_SITE_TABLES) & KR_PTE_W);
    CHECK_EQ(patch(at, 1), -ENOSPC);
}

static u64 *table(u64 gpa) { return (u64 *)(mm->vm.pt + (gpa - KR_PT_GPA)); }
static u64 walk(u64 root, u64 gva) {
    for (int shift = 39; shift >= 12; shift -= 9) {
        u64 entry = table(root)[gva >> shift & 511];
        if (!(entry & KR_PTE_P) || shift == 12)
            return entry;
        root = entry & 0x000ffffffffff000ULL;
    }
    return 0;
}

/* Each vCPU has its own pages at KR_OWN_BASE; all else is the same, also what is mapped later. */
static void roots(void) {
    static const u32 vcpus[] = {0, 1, 40, 31};
    for (u32 i = 0; i < KR_COUNT(vcpus); i++) {
        struct kr_vcpu v = {.idx = vcpus[i]};
        u64 area = KR_VCPU_AREA(v.idx);
        CHECK_EQ(kr_pt_sys(&mm->vm, KR_SYS_BASE + area + KR_VCPU_CALL, area + KR_VCPU_CALL,
                           KR_PTE_U | KR_PTE_W | KR_PTE_NX),
                 0);
        CHECK_EQ(
            kr_pt_sys(&mm->vm, KR_SYS_BASE + area + KR_VCPU_TSS, area + KR_VCPU_TSS, KR_PTE_W | KR_PTE_NX),
            0);
        CHECK_EQ(kr_root(&mm->vm, v.idx), mm->vm.root_gpa);
        CHECK_EQ(kr_callpage_map(&mm->vm, &v), 0);
        u64 root = kr_root(&mm->vm, v.idx);
        CHECK(root != mm->vm.root_gpa);
        CHECK_EQ(kr_root_make(&mm->vm, v.idx), 0);
        CHECK_EQ(kr_root(&mm->vm, v.idx), root);
    }
    CHECK_EQ(kr_pt_sys(&mm->vm, 0x500000000000ULL, 0x5000, KR_PTE_U), 0); /* a new entry of the root */
    for (u32 i = 0; i < KR_COUNT(vcpus); i++) {
        u64 root = kr_root(&mm->vm, vcpus[i]), area = KR_SYS_GPA + KR_VCPU_AREA(vcpus[i]);
        CHECK_EQ(walk(root, KR_OWN_BASE + KR_EO_CALL) & ~0x60ULL,
                 (area + KR_VCPU_CALL) | KR_PTE_P | KR_PTE_U | KR_PTE_W | KR_PTE_NX);
        CHECK_EQ(walk(root, KR_OWN_BASE + KR_EO_FACT) & ~0x60ULL,
                 (area + KR_VCPU_FACT) | KR_PTE_P | KR_PTE_U | KR_PTE_NX);
        CHECK_EQ(walk(root, KR_OWN_BASE + KR_VCPU_TSS),
                 0); /* what ring 3 does not reach there it does not reach here */
        CHECK_EQ(walk(root, KR_OWN_BASE) & ~0x60ULL, (KR_SYS_GPA + KR_SYS_OWN) | KR_PTE_P | KR_PTE_U);
        CHECK_EQ(walk(root, KR_OWN_END - 1) & ~0x60ULL,
                 (KR_SYS_GPA + KR_SYS_SITES + 7 * KR_PAGE) | KR_PTE_P | KR_PTE_U);
        CHECK_EQ(walk(root, KR_OWN_END), 0);
        for (u64 gva = 0; gva < 1ULL << 47; gva += 1ULL << 39)
            if (gva != (KR_OWN_BASE & ~((1ULL << 39) - 1)))
                CHECK_EQ(table(root)[gva >> 39], table(mm->vm.root_gpa)[gva >> 39]);
    }
    CHECK_EQ(walk(mm->vm.root_gpa, KR_OWN_BASE), 0);
}

void test_main(void) {
    mm = calloc(1, sizeof *mm);
    mm->vm.fd = -1;
    mm->vm.pt_slots = 1;
    mm->vm.chunk = calloc(KR_CHUNKS, sizeof(u32));
    mm->vm.chunk_list = calloc(KR_SLOTS_MAX, sizeof(struct kr_chunk));
    mm->mmap_top = 0x20f000000000ULL;
    mm->vm.pt = (u8 *)kr_sys6(__NR_mmap, 0, POOL, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (u64)-1, 0);
    CHECK_EQ(kr_pt_init(&mm->vm), 0);
    memory = (int)kr_sys2(__NR_memfd_create, "sys", 0);
    CHECK_EQ(kr_sys2(__NR_ftruncate, memory, KR_SYS_SIZE), 0);
    mm->vm.sys = sys = at_place(0, 0, KR_SYS_SIZE, PROT_READ | PROT_WRITE);
    kr_callpage_code(sys + KR_SYS_STUB);
    /* The guest's addresses, for vCPU 0. */
    at_place(KR_OWN_BASE, KR_SYS_OWN, KR_PAGE, PROT_READ | PROT_WRITE);
    call =
        at_place(KR_OWN_BASE + KR_EO_CALL, KR_VCPU_AREA(0) + KR_VCPU_CALL, KR_PAGE, PROT_READ | PROT_WRITE);
    at_place(KR_OWN_BASE + KR_EO_FACT, KR_VCPU_AREA(0) + KR_VCPU_FACT, KR_PAGE, PROT_READ);
    at_place(KR_OWN_SITES, KR_SYS_SITES, KR_OWN_END - KR_OWN_SITES, PROT_READ | PROT_EXEC);
    fact = kr_fact_page(&mm->vm, 0);
    patched = kr_patched_page(&mm->vm, 0);
    stack = kr_test_window(STACK_WORDS * 8);
    memset(stack, 0x5a, STACK_WORDS * 8);
    struct kr_altstack alt = {.sp = (u64)kr_test_window(1 << 16), .size = 1 << 16}, old;
    CHECK_EQ(kr_sys2(__NR_sigaltstack, &alt, &old), 0);
    handle(SIGILL);
    handle(SIGTRAP);
    handle(SIGSEGV);
    runs();
    refusals();
    many();
    heir();
    cut_off();
    room();
    roots();
    kr_sys2(__NR_sigaltstack, &old, 0);
}
