/* SPDX-License-Identifier: Apache-2.0
 *
 * Linux AIO at fork (sys/aio.c). */
#ifndef KR_SYS_AIO_H
#define KR_SYS_AIO_H

#include "../machine/mm.h"

/* In the child of a fork, before anything else runs in it: the contexts stay with the parent, because the
 * kernel copies none. */
void kr_aio_after_fork(struct kr_mm *mm);

#endif
