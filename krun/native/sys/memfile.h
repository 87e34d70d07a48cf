/* SPDX-License-Identifier: Apache-2.0
 *
 * The own /proc/PID/mem (memfile.c).
 */
#ifndef KR_SYS_MEMFILE_H
#define KR_SYS_MEMFILE_H

#include "../machine/vmm.h"

struct open_how;

/* Whether the process has ever opened its mem. A hint; atomic. */
extern u32 kr_memfiles;

/* An open has failed with EACCES. A descriptor if path is the calling process's mem, which it may open; else -errno. path: a private
 * copy. */
long kr_memfile_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked);
/* The call nr has failed with EBADF. Its result on an own mem; -EBADF if a[0] is none. a: checked (kr_check_args). */
long kr_memfile_call(struct kr_task *t, u64 nr, const u64 a[6]);

void kr_memfile_before_fork(void);
void kr_memfile_fork_parent(void);
void kr_memfile_after_fork(void);

#endif
