/* SPDX-License-Identifier: Apache-2.0
 * machine/change.c: a process dies before or after each host call of each memory call. The heir finds an array that
 * is garbage, and leaves what was there before the call or what the call makes; array, host and page tables agree.
 * Sources: mm.c vma.c change.c remap.c segment.c advise.c pt.c warm.c kr_alloc.c
 */
#include "harness.h"
#include "machine/mm.h"
#include "machine/slots.h"
#include "machine/vma.h"
#include "machine/usercopy.h"
#include <linux/mman.h>

/* ---- Death: each call that may be the last step ---- */

static void *out[5];
static u32 left; /* steps until the process dies; 0: it lives */

static void step(void) {
    if (left && !--left)
        __builtin_longjmp(out, 1);
}

/* machine/hostmem.c itself, with a step before and after each call. */
#define kr_host_map real_map
#define kr_host_unmap real_unmap
#define kr_host_protect real_protect
#define kr_host_remap real_remap
#define kr_host_attach real_attach
#include "machine/hostmem.c"
#undef kr_host_map
#undef kr_host_unmap
#undef kr_host_protect
#undef kr_host_remap
#undef kr_host_attach

#define STEPS(call)                                                                                          \
    step();                                                                                                  \
    long r = call;                                                                                           \
    step();                                                                                                  \
    return r

long kr_host_map(u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    STEPS(real_map(addr, len, prot, flags, fd, off));
}
long kr_host_unmap(u64 addr, u64 len) { STEPS(real_unmap(addr, len)); }
long kr_host_protect(u64 addr, u64 len, u32 prot) { STEPS(real_protect(addr, len, prot)); }
static u32
    refuse_large; /* the host does not move several pages at once: kr_mm_host_move moves piece by piece */
long kr_host_remap(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to) {
    if (refuse_large && flags && old_len > KR_PAGE)
        return -EFAULT;
    STEPS(real_remap(old, old_len, new_len, flags, to));
}
long kr_host_attach(s32 id, u64 addr, u32 flags, u64 *len) { STEPS(real_attach(id, addr, flags, len)); }

int kr_pt_slot(struct kr_vm *vm) {
    vm->pt_slots++;
    return 0;
}
int kr_pt_back(struct kr_vm *vm) {
    vm->pt_backed += KR_PT_STEP;
    return 0;
}
int kr_vm_cover(struct kr_vm *vm, u64 start, u64 end) {
    step();
    for (u64 c = start >> KR_CHUNK_SHIFT; c <= (end - 1) >> KR_CHUNK_SHIFT; c++)
        if (!kr_chunk_find(vm, c)) {
            vm->chunk_list[vm->next_chunk] = (struct kr_chunk){(u32)c, (1u << KR_CHUNK_PARTS) - 1};
            vm->next_chunk++;
            CHECK(vm->next_chunk <= KR_SMALL_CHUNKS);
        }
    return 0;
}
void kr_vm_flush(struct kr_vm *vm) {
    (void)vm;
    step();
}
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    u32 v;
    if (kr_copy_raw(&v, p, 4) < 0)
        return -EFAULT;
    *seen = v;
    return v == old ? kr_copy_raw(p, &new_value, 4) : 0;
}
static u32 ends;
void kr_die(const char *fmt, ...) {
    (void)fmt;
    ends++;
    __builtin_longjmp(out, 1);
}

/* ---- What there is ---- */

#define PAGES 96ULL
#define BASE 0x210000000000ULL

static struct kr_mm *mm;
static u64 at(u64 page) { return BASE + page * KR_PAGE; }

struct picture {
    struct {
        u32 mapped, prot, shared, tag;
    } page[PAGES];
    u64 brk;
};

/* Takes the picture; the host and the page tables must agree with the array. */
static void look(struct picture *p) {
    memset(p, 0, sizeof *p);
    p->brk = mm->brk_end;
    for (u32 i = 0; i < mm->nvma; i++)
        CHECK(mm->vma[i].start < mm->vma[i].end && (!i || mm->vma[i - 1].end <= mm->vma[i].start));
    for (u64 i = 0; i < PAGES; i++) {
        struct kr_vma *v = kr_vma_find(mm, at(i));
        u8 in;
        u64 pte = kr_pt_get(&mm->vm, at(i));
        p->page[i].mapped = v && v->start <= at(i);
        CHECK_EQ(kr_host_mincore(at(i), KR_PAGE, &in) != -ENOMEM, p->page[i].mapped);
        CHECK(!(pte & KR_PTE_P) || (p->page[i].mapped && v->prot));
        if (!p->page[i].mapped)
            continue;
        CHECK(!(pte & KR_PTE_W) || v->prot & PROT_WRITE);
        p->page[i].prot = v->prot;
        p->page[i].shared = v->flags & KR_VMA_SHARED;
        long r = kr_copy_raw(&p->page[i].tag, (void *)at(i), 4);
        CHECK_EQ(r, v->prot & PROT_READ ? 0 : -EFAULT);
        if (v->prot & PROT_WRITE)
            CHECK_EQ(kr_copy_raw((void *)at(i), &p->page[i].tag, 4), 0);
    }
}

/* Three mappings with different rights and a break, each page with its number in it. */
static void set_up(void) {
    const u32 fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    kr_mm_munmap(mm, BASE, PAGES * KR_PAGE);
    CHECK_EQ(kr_mm_mmap(mm, at(0), 16 * KR_PAGE, 3, fixed, -1, 0), at(0));
    CHECK_EQ(kr_mm_mmap(mm, at(16), 16 * KR_PAGE, 3, fixed, -1, 0), at(16));
    CHECK_EQ(kr_mm_mmap(mm, at(40), 8 * KR_PAGE, 3, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at(40));
    for (u64 i = 0; i < 48; i++)
        if (i < 32 || i >= 40)
            *(volatile u32 *)at(i) = (u32)i + 1;
    CHECK_EQ(kr_mm_mprotect(mm, at(20), 4 * KR_PAGE, PROT_READ), 0);
    mm->brk_start = at(64);
    mm->brk_end = at(64);
    CHECK_EQ(kr_mm_brk(mm, at(68)), at(68));
    *(volatile u32 *)at(64) = 99;
}

/* ---- The calls ---- */

static s32 segment;
static int file;

static void call(u32 which) {
    u64 len;
    switch (which) {
    case 0: /* a free place */
        CHECK_EQ(kr_mm_mmap(mm, at(50), 4 * KR_PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                 at(50));
        break;
    case 1: /* in place of parts of two mappings */
        CHECK_EQ(kr_mm_mmap(mm, at(12), 10 * KR_PAGE, 1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                 at(12));
        break;
    case 2:
        CHECK_EQ(kr_mm_munmap(mm, at(10), 12 * KR_PAGE), 0);
        break;
    case 3:
        CHECK_EQ(kr_mm_mprotect(mm, at(10), 12 * KR_PAGE, PROT_NONE), 0);
        break;
    case 4:
        CHECK_EQ(kr_mm_mprotect(mm, at(10), 12 * KR_PAGE, 7), 0);
        break;
    case 5: /* grows in place */
        CHECK_EQ(kr_mm_mremap(mm, at(24), 8 * KR_PAGE, 12 * KR_PAGE, 0, 0), at(24));
        break;
    case 6: /* shrinks */
        CHECK_EQ(kr_mm_mremap(mm, at(24), 8 * KR_PAGE, 2 * KR_PAGE, 0, 0), at(24));
        break;
    case 7: /* moves and grows */
    case 8:
        CHECK_EQ(kr_mm_mremap(mm, at(2), 4 * KR_PAGE, 6 * KR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(52)),
                 at(52));
        break;
    case 9: /* moves and shrinks, in place of another mapping */
    case 10:
        CHECK_EQ(kr_mm_mremap(mm, at(2), 6 * KR_PAGE, 3 * KR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(41)),
                 at(41));
        break;
    case 11:
        CHECK_EQ(kr_mm_mremap(mm, at(2), 4 * KR_PAGE, 4 * KR_PAGE,
                              MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, at(52)),
                 at(52));
        break;
    case 12: /* a second mapping of shared pages */
        CHECK_EQ(kr_mm_mremap(mm, at(40), 0, 4 * KR_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(52)), at(52));
        break;
    case 13:
        CHECK_EQ(kr_mm_brk(mm, at(70) + 100), at(70) + 100);
        break;
    case 14:
        CHECK_EQ(kr_mm_brk(mm, at(65) + 100), at(65) + 100);
        break;
    case 15:
        CHECK_EQ(kr_mm_attach(mm, segment, at(80), 0, 3, &len), at(80));
        break;
    case 16: /* SHM_REMAP */
        CHECK_EQ(kr_mm_attach(mm, segment, at(14), 1, 3, &len), at(14));
        break;
    case 17:
        CHECK_EQ(kr_mm_madvise(mm, at(2), 4 * KR_PAGE, MADV_DONTFORK), 0);
        break;
    case 18: /* a file at a free place */
        CHECK_EQ(kr_mm_mmap(mm, at(50), 2 * KR_PAGE, 1, MAP_PRIVATE | MAP_FIXED, file, 0), at(50));
        break;
    case 19: /* a file in place of what is there: nobody can tell what was done */
        CHECK_EQ(kr_mm_mmap(mm, at(4), 2 * KR_PAGE, 1, MAP_PRIVATE | MAP_FIXED, file, 0), at(4));
        break;
    }
}
#define CALLS 20
#define CALL_ENDS 19 /* the call that ends the relatives */

/* Runs a call that dies at a step. 0: it came to its end first. */
static int dies(u32 which, u32 steps) {
    if (__builtin_setjmp(out))
        return 1;
    left = steps;
    call(which);
    left = 0;
    return 0;
}

/* What a thread of the dead process may have left of the array in the middle of a change. */
static void garble(void) {
    if (!mm->change.kind)
        return;
    for (u32 i = 0; i < mm->vma_room; i++)
        mm->vma[i] = (struct kr_vma){kr_test_random(), kr_test_random(), 7, 7};
    mm->nvma = (u32)kr_test_below(mm->vma_room);
}

static int inherits(u32 steps) {
    if (__builtin_setjmp(out))
        return 0;
    left = steps;
    kr_mm_heir(mm);
    left = 0;
    return 1;
}

static void deaths(u32 which, int heir_dies) {
    static struct picture before, after, now;
    int failures = kr_test_failures;
    refuse_large = which == 8 || which == 10;
    set_up();
    look(&before);
    CHECK_EQ(dies(which, 0), 0);
    look(&after);
    u32 steps = 1;
    for (;; steps++) {
        set_up();
        if (!dies(which, steps))
            break;
        ends = 0;
        garble();
        u32 more = 1;
        while (heir_dies && !inherits(more) && !ends) { /* the next heir begins again */
            garble();
            more++;
        }
        if (!ends && !heir_dies)
            CHECK(inherits(0) || ends);
        if (ends) {
            CHECK_EQ(which, CALL_ENDS);
            memcpy(mm->vma, mm->undo, mm->nundo * sizeof *mm->vma); /* for the next round */
            mm->nvma = mm->nundo;
        }
        kr_mm_release(mm);
        if (ends)
            continue;
        look(&now);
        CHECK(!memcmp(&now, &before, sizeof now) || !memcmp(&now, &after, sizeof now));
        if (kr_test_failures > failures) {
            printf("call %u, step %u\n", which, steps);
            return;
        }
    }
    CHECK(steps > 1 || which == 17);
}

void test_main(void) {
    mm = calloc(1, sizeof *mm);
    mm->vm.pt_slots = 1;
    mm->vm.chunk_list = calloc(KR_SMALL_CHUNKS, sizeof(struct kr_chunk));
    mm->mmap_top = 0x20f000000000ULL;
    mm->relatives = 1;
    mm->vm.pt = (u8 *)kr_sys6(__NR_mmap, 0, 8 * KR_PT_SLOT, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              (u64)-1, 0);
    CHECK_EQ(kr_pt_init(&mm->vm), 0);
    segment = (s32)kr_sys3(__NR_shmget, 0 /* IPC_PRIVATE */, 4 * KR_PAGE, 0600);
    file = (int)kr_sys3(__NR_open, "/proc/self/exe", O_RDONLY, 0);
    CHECK(segment >= 0 && file >= 0);
    for (u32 i = 0; i < CALLS; i++) {
        deaths(i, 0);
        if (i != CALL_ENDS)
            deaths(i, 1);
    }
    kr_sys3(__NR_shmctl, segment, IPC_RMID, 0);
    free(mm->vm.chunk_list);
    free(mm);
}
