/* SPDX-License-Identifier: Apache-2.0
 *
 * madvise(2), for advice that is known. State: struct kr_mm, under mm->lock, which the call takes.
 */
#include "../lib/kr_linux.h"
#include "vma.h"
#include "hostmem.h"
#include "site.h"

/* Whether the advice loses what is in the memory. */
static int discards(int advice) {
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_WIPEONFORK:
    case MADV_GUARD_INSTALL:
        return 1;
    }
    return 0;
}

/* End of the part of [addr, end) that lies before sealed private memory without PROT_WRITE: to discard such
 * memory would change it (mseal(2)). Locked. */
static u64 may_discard_until(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if ((mm->vma[i].flags & (KR_VMA_SEALED | KR_VMA_SHARED)) == KR_VMA_SEALED &&
            !(mm->vma[i].prot & PROT_WRITE))
            return KR_MAX(addr, mm->vma[i].start);
    return end;
}

/* Advice that the array has as a flag, set or cleared. The kernel gives it to all mappings of the range, and then reports a hole
 * (ENOMEM); any other error comes with the first mapping that cannot have it. */
static long advise_noted(struct kr_mm *mm, u64 addr, u64 len, int advice, u32 flag, int set) {
    u64 end = addr + len;
    kr_lock(&mm->lock);
    long r = -ENOMEM;
    if (!kr_change_begin(mm, &(struct kr_change){.kind = KR_CHANGE_ARRAY}, 2)) {
        r = kr_host_advise(addr, len, advice);
        if (!r || (r == -ENOMEM && !kr_vma_range_mapped(mm, addr, end))) {
            kr_vma_split(mm, addr);
            kr_vma_split(mm, end);
            for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
                mm->vma[i].flags = set ? mm->vma[i].flags | flag : mm->vma[i].flags & ~flag;
            kr_vma_merge(mm, addr, end);
        }
    }
    kr_mm_release(mm);
    return r;
}

long kr_mm_madvise(struct kr_mm *mm, u64 addr, u64 len, int advice) {
    if (addr & (KR_PAGE - 1))
        return -EINVAL;
    if (len > KR_WINDOW_END)
        return -EINVAL;
    len = KR_PAGE_UP(len);
    switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED: /* KVM's MMU notifier sees that the host drops pages; the guest's tables stay as they are */
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
    case MADV_GUARD_INSTALL: /* the host faults at a touch, too: host_fault() in run.c */
    case MADV_GUARD_REMOVE:
    case MADV_DONTNEED_LOCKED:
    case MADV_COLLAPSE:
        break;
    case MADV_DONTFORK:
    case MADV_DOFORK:
        break;
    default:
        return -EINVAL; /* among them MADV_HWPOISON and MADV_SOFT_OFFLINE, which are for the machine's administrator */
    }
    if (!len)
        return 0;
    if (!kr_in_window(addr, len))
        return -ENOMEM;
    if (discards(advice)) {
        kr_lock(&mm->lock);
        u64 end = may_discard_until(mm, addr, addr + len);
        kr_sites_undo(mm, addr, end);
        kr_unlock(&mm->lock);
        if (end < addr + len) {
            long r = end > addr ? kr_mm_madvise(mm, addr, end - addr, advice) : 0;
            return r ? r : -EPERM;
        }
    }
    if (advice == MADV_DONTFORK || advice == MADV_DOFORK)
        return advise_noted(mm, addr, len, advice, KR_VMA_DONTFORK, advice == MADV_DONTFORK);
    if (advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE)
        return advise_noted(mm, addr, len, advice, KR_VMA_SMALL, advice == MADV_NOHUGEPAGE);
    return kr_host_advise(addr, len, advice);
}
