/* SPDX-License-Identifier: Apache-2.0
 *
 * The own /proc/PID/mem, pagemap and clear_refs (memfile.c).
 */
#ifndef KR_SYS_MEMFILE_H
#define KR_SYS_MEMFILE_H

#include "../machine/vmm.h"

struct open_how;

#define KR_MAX_RW 0x7ffff000ULL /* MAX_RW_COUNT */

/* Whether the process has ever opened one of them. A hint; atomic. */
extern u32 kr_memfiles;

/* An open has failed with EACCES. A descriptor if path is one of them of the calling process, which it may open; else -errno. path: a private
 * copy. */
long kr_memfile_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked);
/* The call nr has failed with EBADF. Its result on one of them; -EBADF if a[0] is none. a: checked (kr_check_args). */
long kr_memfile_call(struct kr_task *t, u64 nr, const u64 a[6]);

void kr_memfile_before_fork(void);
void kr_memfile_fork_parent(void);
void kr_memfile_after_fork(void);

#endif
