/* SPDX-License-Identifier: Apache-2.0
 *
 * The array of mappings, and the page tables that follow it: see vma.h. State: struct kr_mm, under mm->lock.
 */
#include "vma.h"
#include <linux/mman.h>

#define STACK_GUARD_GAP (256 * KR_PAGE) /* stack_guard_gap in mm/mmap.c */

/* ---- The array ---- */

u32 kr_vma_index(struct kr_mm *mm, u64 addr) {
    u32 lo = 0, hi = mm->nvma;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (mm->vma[mid].end <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr) {
    u32 i = kr_vma_index(mm, addr);
    return i < mm->nvma ? &mm->vma[i] : NULL;
}

int kr_vma_reserve(struct kr_mm *mm, u32 more) {
    if (mm->nvma + more <= mm->vma_room)
        return 0;
    u32 room = KR_MAX(mm->vma_room * 2, 128u);
    struct kr_vma *old = mm->vma, *v = kr_alloc(room * sizeof *v);
    u32 was = mm->vma_room;
    if (!v)
        return -ENOMEM;
    if (old)
        memcpy(v, old, mm->nvma * sizeof *v);
    /* In this order, for an heir (change.c): the array is never smaller than its room says. */
    __atomic_store_n(&mm->vma, v, __ATOMIC_RELEASE);
    __atomic_store_n(&mm->vma_room, room, __ATOMIC_RELEASE);
    kr_free(old, was * sizeof *old);
    return 0;
}

static void insert_at(struct kr_mm *mm, u32 i, struct kr_vma v) {
    memmove(&mm->vma[i + 1], &mm->vma[i], (mm->nvma - i) * sizeof v);
    mm->vma[i] = v;
    mm->nvma++;
}

void kr_vma_remove(struct kr_mm *mm, u32 i, u32 n) {
    memmove(&mm->vma[i], &mm->vma[i + n], (mm->nvma - i - n) * sizeof mm->vma[0]);
    mm->nvma -= n;
}

void kr_vma_split(struct kr_mm *mm, u64 addr) {
    u32 i = kr_vma_index(mm, addr);
    if (i == mm->nvma || mm->vma[i].start >= addr)
        return;
    struct kr_vma tail = mm->vma[i];
    tail.start = addr;
    mm->vma[i].end = addr;
    insert_at(mm, i + 1, tail);
}

void kr_vma_cut(struct kr_mm *mm, u64 start, u64 end) {
    kr_vma_split(mm, start);
    kr_vma_split(mm, end);
    u32 i = kr_vma_index(mm, start), j = i;
    while (j < mm->nvma && mm->vma[j].end <= end)
        j++;
    kr_vma_remove(mm, i, j - i);
}

static int alike(const struct kr_vma *a, const struct kr_vma *b) {
    return a->end == b->start && a->prot == b->prot && a->flags == b->flags &&
           (a->flags & (KR_VMA_ANON | KR_VMA_PAGE_MASK)) == KR_VMA_ANON;
}

void kr_vma_merge(struct kr_mm *mm, u64 start, u64 end) {
    u32 i = kr_vma_index(mm, start ? start - 1 : 0);
    while (i + 1 < mm->nvma && mm->vma[i].start <= end) {
        if (alike(&mm->vma[i], &mm->vma[i + 1])) {
            mm->vma[i].end = mm->vma[i + 1].end;
            kr_vma_remove(mm, i + 1, 1);
        } else {
            i++;
        }
    }
}

void kr_vma_insert(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 flags) {
    insert_at(mm, kr_vma_index(mm, start), (struct kr_vma){start, end, prot, flags});
    kr_vma_merge(mm, start, end);
}

/* ---- Page tables ---- */

int kr_mm_fill(struct kr_mm *mm, u64 start, u64 end, u32 prot) {
    if (!kr_mm_host_prot(prot))
        return kr_pt_update(&mm->vm, start, end, 0, 0);
    int r = kr_vm_cover(&mm->vm, start, end);
    if (r < 0)
        return r;
    return kr_pt_update(&mm->vm, start, end, prot, 1);
}

int kr_mm_reflect(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 vma_flags) {
    if (end - start <= ((vma_flags & KR_VMA_ANON) && (prot & PROT_WRITE) ? KR_EAGER_ANON : KR_EAGER))
        return kr_mm_fill(mm, start, end, prot);
    return kr_pt_update(&mm->vm, start, end, prot, 0);
}

void kr_mm_refill(struct kr_mm *mm, u64 start, u64 end) {
    for (u32 i = kr_vma_index(mm, start); i < mm->nvma && mm->vma[i].start < end; i++)
        kr_mm_reflect(mm, KR_MAX(start, mm->vma[i].start), KR_MIN(end, mm->vma[i].end), mm->vma[i].prot,
                      mm->vma[i].flags);
}

/* ---- Choice of an address ---- */

u64 kr_vma_find_below(struct kr_mm *mm, u64 top, u64 len, u64 align) {
    u64 low = KR_WINDOW_START;
    for (u32 i = kr_vma_index(mm, top);; i--) {
        /* gap between vma[i-1] and vma[i], cut at top */
        u64 gap_end = i < mm->nvma ? KR_MIN(mm->vma[i].start, top) : top;
        u64 gap_start = i ? mm->vma[i - 1].end : low;
        if (i < mm->nvma && (mm->vma[i].flags & (KR_VMA_GROWSDOWN | KR_VMA_STACK)) &&
            gap_end == mm->vma[i].start)
            gap_end = gap_end > STACK_GUARD_GAP ? gap_end - STACK_GUARD_GAP : 0;
        gap_start = KR_MAX(gap_start, low);
        if (gap_end >= len && gap_end > gap_start) {
            u64 a = (gap_end - len) & ~(align - 1);
            if (a >= gap_start)
                return a;
        }
        if (!i)
            return 0;
    }
}

u64 kr_mm_find_free(struct kr_mm *mm, u64 len, u64 align) {
    u64 a = kr_vma_find_below(mm, mm->mmap_top, len, align);
    return a ? a : kr_vma_find_below(mm, KR_WINDOW_END, len, align);
}

int kr_vma_range_free(struct kr_mm *mm, u64 addr, u64 len) {
    u32 i = kr_vma_index(mm, addr);
    return i == mm->nvma || mm->vma[i].start >= addr + len;
}

u64 kr_vma_sealed_from(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if (mm->vma[i].flags & KR_VMA_SEALED)
            return KR_MAX(addr, mm->vma[i].start);
    return end;
}

int kr_vma_sealed(struct kr_mm *mm, u64 addr, u64 len) {
    return kr_vma_sealed_from(mm, addr, addr + len) < addr + len;
}

u64 kr_vma_mapped_until(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = kr_vma_index(mm, addr); addr < end; i++) {
        if (i == mm->nvma || mm->vma[i].start > addr)
            return addr;
        addr = mm->vma[i].end;
    }
    return end;
}

int kr_vma_range_mapped(struct kr_mm *mm, u64 addr, u64 end) {
    return kr_vma_mapped_until(mm, addr, end) == end;
}
