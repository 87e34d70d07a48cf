/* SPDX-License-Identifier: Apache-2.0
 * Paths of the payload. The kernel never walks a path of the payload through a magic link (/proc/PID/fd/N,
 * cwd, root, exe): that walk would have the monitor's rights, and could end at the monitor's descriptors.
 * There are two kinds of calls:
 *
 *   on an object   The object of the path is found with judgement (view/procfs.h), and the call is made
 *                  on its descriptor (kr_path_use, kr_path_find).
 *   on a name      The directory is found with judgement, and the call gets its descriptor and the last
 *                  component (kr_names).
 *
 * In both kinds the kernel walks one component at most, and does not follow it. No row of syscalls.def
 * forwards a path.
 */
#ifndef KR_SYS_PATH_H
#define KR_SYS_PATH_H

#include "sys.h"

/* Makes a private copy of the path at ptr. Its length or -errno. After success the caller ends with
 * kr_path_put. */
long kr_path_copy(u64 ptr, char **path);
void kr_path_put(char *path);

/* The object of the path at ptr, opened O_PATH, or -errno. flags: only AT_SYMLINK_NOFOLLOW counts. The caller
 * closes the descriptor. */
long kr_path_find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags);

/* Finds the object as kr_path_find and calls fn on its descriptor. If the payload has no free number, fn runs
 * on a short-lived thread with a copy of the table, where one standard descriptor is closed. So fn makes only
 * system calls, and none on a standard descriptor except dirfd. It touches no memory of the payload by itself: a
 * fault on that thread ends the process. fn's result or -errno. */
typedef long kr_use_fn(int fd, const u64 *b);
long kr_path_use(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags, kr_use_fn *fn, const u64 *b);

/* The same, always on such a thread: fn may change the working directory. */
long kr_path_use_alone(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags, kr_use_fn *fn, const u64 *b);

/* Whether the path is NULL or empty; and the argument that the host call gets for it, which the payload
 * cannot change afterwards. */
int kr_path_empty(u64 ptr);
static inline u64 kr_path_nothing(u64 ptr) { return ptr ? (u64) "" : 0; }

/* Makes a call (dirfd, path, ...) whose path is empty: on the descriptor itself. */
long kr_path_itself(long nr, const u64 a[6]);
/* Makes a call (dirfd, path, ...) on the object of the path, through the monitor's procfs. Argument number
 * flags_arg has the flags AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH. */
long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg);
/* Makes a call without a directory argument on fd's path below the monitor's procfs, by a thread whose
 * working directory is that procfs. The path becomes argument `at` of b. Closes fd. */
long kr_path_from(struct kr_task *t, long fd, long nr, const u64 b[6], int at);
/* The result of a call whose path, argument i, could not be found with `err`. An error that Linux checks
 * before the path (permissions, flags, other arguments) comes first. */
long kr_path_error(long nr, const u64 a[6], int i, long err);

/* Makes the call nr on names. b: its arguments. A pair (directory, path) begins at b[i], another at b[j]
 * unless j is negative. */
long kr_names(struct kr_task *t, long nr, const u64 b[6], int i, int j);

/* Takes and releases the lock of the positions of listings (sys/dirent.c) around fork. Parent and child
 * release it. */
void kr_listing_before_fork(void);
void kr_listing_after_fork(void);
/* The numbers first to last get another file, or none: the positions of their listings are forgotten. Called after the
 * change, and after an open, which may come between another thread's change and its call. */
void kr_listing_forget(u64 first, u64 last);

#endif
