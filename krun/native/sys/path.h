/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of the payload. No call is made with a path of the payload's that the kernel would walk through a
 * magic link (/proc/PID/fd/N, cwd, root, exe): that walk would have the monitor's rights, and could end at
 * the monitor's descriptors. There are two forms:
 *
 *   calls on an object   what the path leads to is found with judgement (view/procfs.h), and the call is made
 *   on its descriptor
 *                        (kr_path_use, kr_path_find);
 *   calls on a name      the directory is found so, and the call gets its descriptor and the last component
 *   (kr_names).
 *
 * In both the kernel's walk has one component at most, which it does not follow. No row of syscalls.def
 * forwards a path.
 */
#ifndef KR_SYS_PATH_H
#define KR_SYS_PATH_H

#include "sys.h"

/* A private copy of the path at ptr: its length or -errno. End with kr_path_put. */
long kr_path_copy(u64 ptr, char **path);
void kr_path_put(char *path);

/* What the path at ptr names, O_PATH, or -errno. flags: AT_SYMLINK_NOFOLLOW counts. Close it afterwards. */
long kr_path_find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags);

/* Calls fn on that descriptor. When the payload has all its numbers in use, on a short-lived thread with a
 * copy of the table, where there is one: fn only makes calls, and none on standard descriptors but dirfd.
 * fn's result or -errno. */
typedef long kr_use_fn(int fd, const u64 *b);
long kr_path_use(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags, kr_use_fn *fn, const u64 *b);

/* Whether the path is NULL or empty; what a call gets for it, so that the payload cannot change it into
 * another afterwards. */
int kr_path_empty(u64 ptr);
static inline u64 kr_path_nothing(u64 ptr) { return ptr ? (u64) "" : 0; }

/* A call (dirfd, path, ...) of the payload's whose path is empty: on the descriptor itself. */
long kr_path_itself(long nr, const u64 a[6]);
/* A call (dirfd, path, ...) whose argument number flags_arg is of AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH: made
 * on what the path leads to, through the monitor's procfs. */
long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg);
/* A call on fd's path below the monitor's procfs, by a thread that stands there: for calls without a
 * directory. The path is argument `at` of b; closes fd. */
long kr_path_from(struct kr_task *t, long fd, long nr, const u64 b[6], int at);
/* What the call answers when its path number i does not lead anywhere by `err`: what Linux looks at before
 * the path (rights, flags, other arguments) comes first. */
long kr_path_error(long nr, const u64 a[6], int i, long err);

/* The call nr on names: b are its arguments, and (directory, path) stand at b[i], and at b[j] unless j is
 * negative. */
long kr_names(struct kr_task *t, long nr, const u64 b[6], int i, int j);

/* Around fork: the lock over the positions of listings (sys/dirent.c); both sides call the second one. */
void kr_listing_before_fork(void);
void kr_listing_after_fork(void);

#endif
