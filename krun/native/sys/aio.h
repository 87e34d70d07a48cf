/* SPDX-License-Identifier: Apache-2.0
 * Linux AIO and fork; what it is about: sys/aio.c. */
#ifndef KR_SYS_AIO_H
#define KR_SYS_AIO_H

#include "../machine/mm.h"

/* In a fork child, before anything else runs in it: the contexts stayed with the parent (the kernel copies
 * none). */
void kr_aio_after_fork(struct kr_mm *mm);

#endif
