/* SPDX-License-Identifier: Apache-2.0
 *
 * Attached System V segments in the array of mappings. shmdt(2) names the address at which a segment begins, or would
 * begin: of the segment's mappings some may be unmapped, replaced by others, or moved by mremap(2). So each mapping of a
 * segment has a number in its flags, and the number says which segment it is and where the segment begins.
 *
 * All functions are called with mm->lock held.
 */
#ifndef KR_SEGMENT_H
#define KR_SEGMENT_H

#include "mm.h"

#define KR_VMA_SEGMENT_SHIFT 16 /* bits 16 to 31 of kr_vma.flags; 0: no segment */

/* Flags of the mappings of segment id, which begins at base and has `size` bytes, rounded to pages. 0: no memory, or 65535
 * numbers are in use. */
u32 kr_segment_flags(struct kr_mm *mm, s32 id, u64 base, u64 size);
/* *flags, of a mapping that moves from `from` to `to`, get another number if they have one. 0 or -ENOMEM. */
int kr_segment_moves(struct kr_mm *mm, u32 *flags, u64 from, u64 to);
/* The first mapping with end > addr of a segment that begins at base; NULL: none. *id: of which segment, ~0: any, then
 * filled. A mapping that ends beyond the segment's size is only found with ~0, as in ksys_shmdt() in ipc/shm.c. */
struct kr_vma *kr_segment_find(struct kr_mm *mm, u64 addr, u64 base, u32 *id);

#endif
