/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own descriptors among the payload's: moved to high numbers, invisible and untouchable.
 * Own lock (innermost but heap_lock). A vfork child has its own descriptor table in the kernel but the same
 * numbers here: it never creates or moves one.
 */
#ifndef KR_FDTAB_H
#define KR_FDTAB_H

#include "vmm.h"

/* Moves fd out of the payload's usual range, records it as the monitor's, and closes the old number. cloexec:
 * whether an execve drops it. The number of a hidden descriptor may change later (kr_fd_evict): holders pass
 * the address of their variable, which is updated. Returns the new number (also stored in *holder), or -errno
 * (then fd is closed, *holder is -1). */
int kr_fd_hide(int fd, int cloexec, int *holder);

/* The same around the making of a descriptor, for which the kernel takes the lowest free number: until
 * kr_fd_hide_end it lies among the payload's, whose other threads may ask for any number. Between the two
 * nobody is told that a number is not hidden, and kr_fd_dup waits. fd: what was made, or -errno, which is
 * returned. Nothing but the making call may stand between. */
void kr_fd_hide_begin(void);
int kr_fd_hide_end(int fd, int cloexec, int *holder);

/* dup(2) and F_DUPFD, F_DUPFD_CLOEXEC (cmd, least number) of one of the payload's descriptors. Check and call
 * are one step, so it never copies a descriptor of ours that comes or goes meanwhile. Number or -errno. */
long kr_fd_dup(u64 fd, int cmd, u64 least);
/* dup3(2) in one step, for when no number is left for a copy: what is replaced is closed under the lock. */
long kr_fd_dup_onto(u64 fd, u64 to, u64 flags);

/* Values of cloexec: what drops the descriptor. */
#define KR_FD_KEPT 0       /* nothing: the next monitor gets it, too */
#define KR_FD_EXEC_DROPS 1 /* execve */
#define KR_FD_FORK_DROPS                                                                                     \
    2 /* execve, and a fork child closes it: the VM and its vCPUs belong to one process */

/* Forgets and closes a hidden descriptor; *holder becomes -1. */
void kr_fd_drop(int *holder);

/* True if the payload must not see fd (answer EBADF). Fast: one compare for usual numbers. */
int kr_fd_hidden(u64 fd);

/* The payload wants to use this very number (dup2, dup3): moves ours away. 0 or -errno. */
int kr_fd_evict(int fd);

/* close_range(2) around ours. */
long kr_fd_close_range(u64 first, u64 last, u64 flags);

/* Writes the hidden numbers, ascending, into out[max]; returns how many there are. For /proc/self/fd
 * listings. */
int kr_fd_list(int *out, int max);

/* Around the life of a task that runs on this mm with a descriptor table of its own (vfork, clone(CLONE_VM)
 * without CLONE_FILES). Begin is called before the clone, end when the child is gone from the mm. Meanwhile
 * numbers are neither moved (kr_fd_evict: -EBUSY) nor given back, for the copy still holds our files under
 * them. */
void kr_fd_copy_begin(void);
void kr_fd_copy_end(void);

/* Around fork: the lock is held over it. The parent calls kr_fd_fork_parent afterwards, the child
 * kr_fd_after_fork. */
void kr_fd_before_fork(void);
void kr_fd_fork_parent(void);

/* In a fork child (resets the lock): closes the hidden descriptors of kind KR_FD_FORK_DROPS, keeps the
 * others. */
void kr_fd_after_fork(void);

#endif
