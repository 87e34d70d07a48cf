/* SPDX-License-Identifier: Apache-2.0
 *
 * Populating memory before the guest touches it (machine/warm.c). All functions are called with mm->lock held.
 * They are best effort and have no result.
 */
#ifndef KR_WARM_H
#define KR_WARM_H

#include "mm.h"

/* Called when the host mapping [addr, addr + len) has been made. flags: of mmap(2); vma_flags: KR_VMA_*. */
void kr_warm_map(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, u32 vma_flags);
/* Populates the pages around sp, the stack pointer with which the guest starts. */
void kr_warm_stack(struct kr_mm *mm, u64 sp);
/* Called after a fork, in the parent and in the child. sp: stack pointer of the thread that forked. */
void kr_warm_fork(struct kr_mm *mm, u64 sp);

#endif
