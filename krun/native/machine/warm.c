/* SPDX-License-Identifier: Apache-2.0
 *
 * Populates memory before the guest touches it, on a back end where a first touch is dear. No state.
 *
 * On PVM the guest's first touch of a page is a world switch: 20 us on the development machine. A page fault
 * on VMX and SVM takes 0.5-1 us. KVM maps a page together with the seven beside it, if the host's tables hold
 * those writable. So memory that a program almost certainly writes is populated when it is mapped: a page
 * then costs 0.3 us, and the guest faults once in eight pages. A fork makes the pages of both sides read-only
 * for copy-on-write, so the same is done in parent and child.
 *
 * A program must not be able to tell populated memory from memory that is touched later. That holds for:
 *   - anonymous memory
 *   - the data of programs and libraries, which loaders map with MAP_DENYWRITE. Any other private mapping of
 *     a file shows later writes to the file until its page is touched
 * Never populated: a stack as a whole, a reservation, a small anonymous mapping (programs ask mincore(2) about
 * such). The constants below bound what is populated at one mapping and at one fork.
 */
#include "../lib/kr_linux.h"
#include "warm.h"
#include "hostmem.h"

#define DATA_MAX (2ULL << 20) /* a program's or library's data, its bss, one growth of the heap */
#define ANON_MIN (64ULL << 10)
#define ANON_MAX (1ULL << 20)     /* kr_mm_fault serves a larger one in blocks of 2 MiB */
#define FORK_VMA_MAX (2ULL << 20) /* a program does not soon touch all of a larger one */
#define FORK_MAX (3ULL << 20)     /* populated at one fork, on each side */
#define STACK_BELOW (16ULL << 10)
#define STACK_ABOVE (16ULL << 10)

static int dear(const struct kr_mm *mm) { return kr_vm_entry(&mm->vm) == KR_ENTRY_RING3; }

/* Best effort: a page that is not populated now becomes a page fault of the guest later. */
static void populate(u64 start, u64 end) {
    if (start < end)
        kr_host_advise(start, end - start, MADV_POPULATE_WRITE);
}

static int is_writable(u32 prot) { return (prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE); }

void kr_warm_map(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, u32 vma_flags) {
    if (!dear(mm) || !is_writable(prot) || (vma_flags & (KR_VMA_SHARED | KR_VMA_GROWSDOWN | KR_VMA_STACK)) ||
        (flags & (MAP_STACK | MAP_NORESERVE | MAP_HUGETLB | MAP_POPULATE)))
        return;
    int anon = (vma_flags & KR_VMA_ANON) != 0;
    int data = anon ? (vma_flags & KR_VMA_HEAP) || (flags & MAP_FIXED) : (vma_flags & KR_VMA_IMAGE) != 0;
    if (data ? len <= DATA_MAX : anon && len > ANON_MIN && len <= ANON_MAX)
        populate(addr, addr + len);
}

void kr_warm_stack(struct kr_mm *mm, u64 sp) {
    struct kr_vma *v = kr_vma_find(mm, sp);
    if (dear(mm) && v && v->start <= sp && is_writable(v->prot))
        populate(KR_MAX(KR_PAGE_DOWN(sp) - STACK_BELOW, v->start),
                 KR_MIN(KR_PAGE_DOWN(sp) + STACK_ABOVE, v->end));
}

void kr_warm_fork(struct kr_mm *mm, u64 sp) {
    u64 room = FORK_MAX;
    if (!dear(mm))
        return;
    kr_warm_stack(mm, sp);
    for (u32 i = 0; i < mm->nvma; i++) {
        struct kr_vma *v = &mm->vma[i];
        u64 len = v->end - v->start;
        if (!is_writable(v->prot) || (v->flags & (KR_VMA_SHARED | KR_VMA_GROWSDOWN | KR_VMA_STACK)) ||
            !(v->flags & (KR_VMA_ANON | KR_VMA_IMAGE)) || len > FORK_VMA_MAX || len > room)
            continue;
        room -= len;
        populate(v->start, v->end);
    }
}
