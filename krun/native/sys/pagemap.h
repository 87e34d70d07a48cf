/* SPDX-License-Identifier: Apache-2.0
 *
 * The own /proc/PID/pagemap and clear_refs (pagemap.c).
 */
#ifndef KR_SYS_PAGEMAP_H
#define KR_SYS_PAGEMAP_H

#include "../view/procfs.h"

/* entry: KR_PE_PAGEMAP or KR_PE_CLEAR_REFS. Whether the kernel lets the calling thread open it with the access mode of flags: 0 or
 * -errno. */
long kr_pagemap_may(struct kr_task *t, enum kr_proc_entry entry, u64 flags);
/* read(2) or write(2) of size bytes at offset `at` of the file, with the payload's buffer buf. Bytes or -errno. */
long kr_pagemap_move(struct kr_task *t, enum kr_proc_entry entry, u64 at, u64 buf, u64 size, int writes);

#endif
