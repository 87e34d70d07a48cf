/* SPDX-License-Identifier: Apache-2.0
 *
 * The array of mappings, and the page tables that follow it: what mm.c, remap.c and advise.c share.
 *
 * All functions are called with mm->lock held. Addresses and lengths are in bytes and lie in the window; the
 * caller has checked them (kr_in_window) and has rounded them to pages.
 */
#ifndef KR_VMA_H
#define KR_VMA_H

#include "mm.h"
#include <linux/mman.h>

#define KR_BLOCK (2ULL << 20) /* what one entry of a page directory maps */

/* From this length on a mapping enters the page tables when it is touched, not when it is made. */
#define KR_EAGER (16ULL << 20)
#define KR_EAGER_ANON (2ULL << 20) /* the same for writable anonymous memory */

/* Whether all of [addr, addr + len) lies in the window. */
static inline int kr_in_window(u64 addr, u64 len) {
    return addr >= KR_WINDOW_START && addr < KR_WINDOW_END && len <= KR_WINDOW_END - addr;
}

/* The rights of the host's mapping. It is never executable; an execute-only page is readable, because the
 * host reads the page when the guest fetches an instruction from it. */
static inline u32 kr_mm_host_prot(u32 prot) {
    u32 p = prot & (PROT_READ | PROT_WRITE);
    return prot & (PROT_WRITE | PROT_EXEC) ? p | PROT_READ : p;
}

/* The size of the pages of a mapping with these flags. The kernel makes, changes and moves a mapping of hugetlbfs in whole pages only. */
#define KR_VMA_PAGE_MASK (63u << KR_VMA_PAGE_SHIFT)
static inline u64 kr_vma_page(u32 flags) {
    return flags & KR_VMA_PAGE_MASK ? 1ULL << (flags >> KR_VMA_PAGE_SHIFT & 63) : KR_PAGE;
}
static inline u32 kr_vma_page_flags(u64 page) {
    return page > KR_PAGE ? (u32)__builtin_ctzll(page) << KR_VMA_PAGE_SHIFT : 0;
}

/* ---- The array ---- */

/* Index of the first mapping with end > addr; mm->nvma if there is none. */
u32 kr_vma_index(struct kr_mm *mm, u64 addr);
/* Makes room for `more` entries. 0; -ENOMEM. */
int kr_vma_reserve(struct kr_mm *mm, u32 more);
/* Removes n entries from index i on. */
void kr_vma_remove(struct kr_mm *mm, u32 i, u32 n);
/* Makes addr a border between mappings. Needs one reserved entry. */
void kr_vma_split(struct kr_mm *mm, u64 addr);
/* Removes [start, end) from the array. Needs two reserved entries. */
void kr_vma_cut(struct kr_mm *mm, u64 start, u64 end);
/* Joins neighbours in and around [start, end) that are alike. Only anonymous mappings of small pages are joined, as in the kernel. */
void kr_vma_merge(struct kr_mm *mm, u64 start, u64 end);
/* Adds [start, end), which is free, and joins it with its neighbours. Needs one reserved entry. */
void kr_vma_insert(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 flags);

/* Whether nothing is mapped in [addr, addr + len). */
int kr_vma_range_free(struct kr_mm *mm, u64 addr, u64 len);
/* Whether [addr, end) is mapped without a hole. */
int kr_vma_range_mapped(struct kr_mm *mm, u64 addr, u64 end);
/* End of the part of [addr, end) that is mapped without a hole from addr on. */
u64 kr_vma_mapped_until(struct kr_mm *mm, u64 addr, u64 end);
/* Start of the first sealed part of [addr, end) (mseal(2)); end if there is none. */
u64 kr_vma_sealed_from(struct kr_mm *mm, u64 addr, u64 end);
/* Whether a part of [addr, addr + len) is sealed. */
int kr_vma_sealed(struct kr_mm *mm, u64 addr, u64 len);
/* The highest free range of len bytes below top, at a multiple of align; 0 if there is none. */
u64 kr_vma_find_below(struct kr_mm *mm, u64 top, u64 len, u64 align);

/* ---- Page tables ---- */

/* Enters [start, end) with prot into the page tables; makes tables and memory slots. 0 or -errno. */
int kr_mm_fill(struct kr_mm *mm, u64 start, u64 end, u32 prot);
/* After a change of [start, end) to prot: a small range is entered at once, a large one only where tables
 * exist. 0 or -errno. */
int kr_mm_reflect(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 vma_flags);
/* Makes the page tables of [start, end) say again what the array says, after a host call that failed. */
void kr_mm_refill(struct kr_mm *mm, u64 start, u64 end);

/* ---- change.c ---- */

/* Begins a change: records what it does, and makes room for `more` entries, so that the change cannot fail half-way.
 * Called before the first step of each change. Inside a change that has begun it only makes room. The change lasts
 * until kr_mm_release. 0; -ENOMEM. */
int kr_change_begin(struct kr_mm *mm, const struct kr_change *c, u32 more);
/* Goes on with another record. The steps that are done then belong to no record. */
void kr_change_to(struct kr_mm *mm, const struct kr_change *c);
/* Ends the change, if one has begun, and gives up mm->lock. */
void kr_mm_release(struct kr_mm *mm);

/* ---- remap.c ---- */

/* Gives [addr, end), which is mapped without a hole and not sealed, the rights prot. Needs two reserved entries.
 * 0 or -errno. */
long kr_mm_protect_locked(struct kr_mm *mm, u64 addr, u64 end, u32 prot);
/* mremap(2) on the host, to a fixed place. */
long kr_mm_host_move(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to);

/* ---- mm.c ---- */

/* Unmaps [addr, addr + len) on the host, in the page tables and in the array. 0 or -errno. */
long kr_mm_unmap_locked(struct kr_mm *mm, u64 addr, u64 len);

#endif
