/* SPDX-License-Identifier: Apache-2.0
 * Memory given before it is touched (machine/warm.c). Locked: mm->lock. No results: best effort. */
#ifndef KR_WARM_H
#define KR_WARM_H

#include "mm.h"

/* After a host mapping was made: flags are mmap(2)'s, vma_flags KR_VMA_*. */
void kr_warm_map(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, u32 vma_flags);
/* Around a stack pointer that the guest starts with. */
void kr_warm_stack(struct kr_mm *mm, u64 sp);
/* After a fork, in the parent and in the child; sp: the forking thread's. */
void kr_warm_fork(struct kr_mm *mm, u64 sp);

#endif
