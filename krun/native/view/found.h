/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of an open that procfs.c puts together: what was found (found.c), entries of the process's user
 * (owned.c), whether O_CREAT may have it (protected.c), and hidden numbers in its path (hidden.c).
 */
#ifndef KR_FOUND_H
#define KR_FOUND_H

#include "walk.h"

struct statx;

/* openat2(2) on the calling thread, ended by a signal of the payload's. */
#define kr_open_intr(dirfd, path, how)                                                                       \
    kr_call_intr(__NR_openat2, (u64)(s64)(dirfd), (u64)(path), (u64)(how), sizeof(struct open_how), 0, 0)

/* Moves fd to the lowest free number, as open(2) promises: other descriptors of the same open may have stood below fd. The new
 * number, or fd. fd < 0: fd. */
long kr_found_lowest(long fd, u64 flags);
/* What kr_slot_put(at) gave, an O_PATH descriptor. Where it is `at` itself, it goes to a higher number, so that the file that is opened
 * next gets the lowest one. The file itself must not be moved (KR_PROCF_RECORD_LOCKS). The number. */
long kr_found_aside(long at, long slot);
/* The payload's number for fd, which was made close-on-exec. flags: the payload's. Closes fd if the number is another one. */
long kr_found_hand_out(long fd, u64 flags);

/* Opens the monitor's text in place of the entry w of this process, with the payload's flags. fd: the entry, where no other thread can
 * exchange it; -1: w->n names it. Descriptor or -errno. */
long kr_found_view(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags);
/* The same for an entry of another process whose text the kernel has refused. */
long kr_found_other_text(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags);
/* Judges fd, which an open has made while no other thread shares the table. fd, or the text in its place, or -errno with fd
 * closed. */
long kr_found_opened(struct kr_task *t, long fd, u64 flags);

/* Waits a little without a slot, and has the call made again: an interrupted one (process/resume.h). -KR_ERESTART. */
long kr_found_later(struct kr_task *t);

/* ---- owned.c ---- */

/* The kernel has answered EACCES for fd, a file that passes (KR_V_PASS). Opens it again if it is an entry of /proc/self
 * that the process's user may write on Linux. fd: O_PATH, where no other thread can exchange it. Descriptor or -errno. */
long kr_owned_open(struct kr_task *t, int fd, const struct statx *sx, u64 flags);

/* ---- protected.c ---- */

/* Whether fd is a file, no directory, of another user than the caller, so that O_CREAT must look. Fills *sx. */
int kr_protected_asked(int fd, struct statx *sx);
/* Whether fs.protected_regular and fs.protected_fifos let O_CREAT open the file that the walk w has found
 * (may_create_in_sticky() in fs/namei.c). */
int kr_protected_lets(struct kr_task *t, const struct kr_walk *w);

/* ---- hidden.c ---- */

/* fd, opened with O_PATH by path. -ENOENT if it is fd/N or fdinfo/N of a hidden number; then fd is closed. */
long kr_hidden_number(struct kr_task *t, long fd, const char *path);
/* Whether a component of path is fd/N or fdinfo/N of this process and N is hidden. */
int kr_hidden_on_way(struct kr_task *t, int dirfd, const char *path);

#endif
