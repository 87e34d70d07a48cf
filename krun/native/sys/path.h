/* SPDX-License-Identifier: Apache-2.0
 * Paths of the payload that must not lead to the monitor's descriptors; the reasons: sys/path.c. */
#ifndef KR_SYS_PATH_H
#define KR_SYS_PATH_H

#include "sys.h"

/* What the path at ptr names, O_PATH, or -errno. flags: AT_SYMLINK_NOFOLLOW counts. Close it afterwards. */
long kr_path_find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags);
/* Whether the path is NULL or empty. */
int kr_path_empty(u64 ptr);
/* A call (dirfd, path, ...) whose argument number flags_arg is of AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH: made
 * on what the path leads to. */
long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg);
/* What the call answers when its path number i does not lead anywhere by `err`: what Linux looks at before
 * the path (rights, flags, other arguments) comes first. */
long kr_path_error(long nr, const u64 a[6], int i, long err);
/* 0, or -ENOENT or -EACCES when the text of a path leads through a number below an fd directory that the
 * payload must not see. Dispatch asks for every path of every call, so that they all answer alike. What a
 * call must not do to a file of the monitor's is not decided here: the text can change after the look, and a
 * link has another. */
long kr_path_seen(struct kr_task *t, u64 dirfd, u64 ptr);

#endif
