/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own descriptors among the payload's: invisible and untouchable. Three classes.
 *
 *   fixed    [base, base + KR_FD_FIXED): /dev/kvm, the monitor's file, the procfs handle... The first monitor
 * of a container or exec chooses base; fork and execve hand the numbers on. None is ever moved or closed. The
 * jail refuses, in the kernel, dup2 and dup3 onto them, close and close_range over them, and fcntl of them
 * (jail.c). slots    the numbers behind them. Always occupied, so that the kernel never gives one of them to
 * the payload. A descriptor that is judged stands in a slot from before the judgement to its last use.
 *   dynamic  the VM, its vCPUs, the program: numbers in a table under fdtab_lock.
 *
 * To the payload all of them are numbers beyond the limit: EBADF. For fixed numbers and slots that is one
 * compare with constants; no lock and no table is involved, so nothing can change between the check and the
 * call.
 *
 * Own lock (innermost but heap_lock). A vfork child has its own descriptor table in the kernel but the same
 * numbers here: it never creates a dynamic one.
 */
#ifndef KR_FDTAB_H
#define KR_FDTAB_H

#include "vmm.h"

/* ---- Fixed numbers and slots ---- */

#define KR_FD_FIXED 8  /* numbers that are never moved nor closed */
#define KR_FD_SLOTS 24 /* slots behind them; fewer when RLIMIT_NOFILE is very low */
#define KR_FD_SLOTS_TASK                                                                                     \
    3 /* how many a task may hold: a program, its interpreter, and what a path walk judges */

/* Places among the fixed numbers. A place whose descriptor is absent holds the placeholder, too. */
enum kr_fd_place {
    KR_FD_AT_KVM,
    KR_FD_AT_EXE,
    KR_FD_AT_PROC,
    KR_FD_AT_LOG,
    KR_FD_AT_BOARD,
    KR_FD_AT_SPARE /* the placeholder: an eventfd that nobody uses */
};

/* The lowest fixed number. */
u32 kr_fd_base(void);
/* base and the number of slots for the boot block (KR_BOOT_FD_PLACE): base | slots << 32. */
u64 kr_fd_place(void);

/* First program only: moves *fd[i] to base + i and stores the number there (-1: absent), closes the old
 * number, fills the other fixed numbers and the slots. 0; -EMFILE: RLIMIT_NOFILE has no room; -EBUSY: a
 * number is in use. *number is the one concerned. */
int kr_fd_fix(int *const fd[KR_FD_FIXED], int *number);
/* In a monitor that execve started: the numbers are what they were; slots that were in use are filled again,
 * but for those among kept[nkept], which t holds from now on. 0; -EINVAL: not a place. */
int kr_fd_fixed_again(struct kr_task *t, u64 place, const int *kept, u32 nkept);

/* Puts fd, which a call has just made at an ordinary number, where no other thread can reach it; fd is
 * closed. Afterwards judge and use the returned number, and end with kr_slot_free. While no other task shares
 * the descriptor table fd itself is returned: there nobody can reach it. Only descriptors that the payload
 * might hold itself may be made at an ordinary number: O_PATH ones of what the container's own paths lead to.
 * Everything else belongs into kr_private.
 * Slots come in groups of KR_FD_SLOTS_TASK. A task that holds none waits for a free group; one that holds
 * some never waits, so tasks do not block each other. No call that may block for long (open of a FIFO) may be
 * made while one is held. Negative fd: returned. -EMFILE: RLIMIT_NOFILE does not allow it, or t holds
 * KR_FD_SLOTS_TASK; -KR_ERESTART: a signal came first. Then fd is closed. */
int kr_slot_put(struct kr_task *t, int fd);
/* The same for a descriptor of the payload's own, which stays open: a second one of the same file. -EBADF:
 * not open, or hidden. */
int kr_slot_dup(struct kr_task *t, u64 fd);
/* Gives back what kr_slot_put or kr_slot_dup returned. A negative number is nothing. */
void kr_slot_free(int fd);

/* Runs fn(arg) where no other task can reach the descriptors that it makes: in place while no other task
 * shares the table, else on a short-lived host thread with a copy of the table, all of which is closed when
 * fn returns. fn must not block for the payload's doing, must not touch t's registers, and closes what it
 * made. Its result; -EAGAIN, -ENOMEM: no thread. (private.c) */
long kr_private(struct kr_task *t, long (*fn)(void *arg), void *arg);
/* The same, always on a thread: fn may close numbers of the copy. */
long kr_alone(struct kr_task *t, long (*fn)(void *arg), void *arg);

/* Other tasks use the same descriptor table: the threads of the process, or processes that CLONE_FILES made.
 */
#define KR_PROCF_SHARED_FILES 0x40000000u /* in proc->flags; for good */
static inline int kr_files_shared(struct kr_task *t) {
    return __atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED) > 1 ||
           __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_SHARED_FILES;
}
static inline void kr_files_share(struct kr_proc *a, struct kr_proc *b) {
    __atomic_fetch_or(&a->flags, KR_PROCF_SHARED_FILES, __ATOMIC_RELAXED);
    __atomic_fetch_or(&b->flags, KR_PROCF_SHARED_FILES, __ATOMIC_RELAXED);
}

/* ---- What the payload may touch ---- */

/* True if the payload must not see fd (answer EBADF). */
int kr_fd_hidden(u64 fd);

/* dup(2) and F_DUPFD, F_DUPFD_CLOEXEC (cmd, least number) of one of the payload's descriptors. Check and call
 * are one step, so it never copies a descriptor of ours that comes or goes meanwhile. Number or -errno. */
long kr_fd_dup(u64 fd, int cmd, u64 least);
/* nr(fd, a, b), a call that changes something of the number itself (F_SETFD, FIOCLEX, FIONCLEX) and does not block, on one of the
 * payload's descriptors. Check and call are one step: a number of ours that comes meanwhile stays close-on-exec, which is all that
 * keeps it from the next program. */
long kr_fd_call(u64 fd, long nr, u64 a, u64 b);
/* dup3(2), dup2(2) in one step; -EBADF when either number is hidden. */
long kr_fd_dup_onto(u64 fd, u64 to, u64 flags);
/* A copy of one of the payload's descriptors for a message that is being sent, hidden until kr_fd_passed, which closes it: nobody
 * can put another file under its number in between. Number or -errno. */
int kr_fd_pass(u64 fd);
void kr_fd_passed(int fd);
/* close_range(2) around ours. */
long kr_fd_close_range(u64 first, u64 last, u64 flags);

/* prlimit(2) of RLIMIT_NOFILE for the calling process: fresh (soft, hard) or NULL; old: what it was. The payload's hard limit may be
 * lower than the kernel's, which leaves room for the numbers of this file. 0 or -errno. */
long kr_fd_limit(struct kr_task *t, const u64 fresh[2], u64 old[2]);

/* ---- Dynamic numbers ---- */

/* Moves fd out of the payload's usual range, records it as the monitor's, and closes the old number. kind:
 * what drops it. Returns the new number (also stored in *holder), or -errno (then fd is closed, *holder is
 * -1). */
int kr_fd_hide(int fd, int kind, int *holder);

/* The same around the making of a descriptor, for which the kernel takes the lowest free number: until
 * kr_fd_hide_end it lies among the payload's, whose other threads may ask for any number. Between the two
 * nobody is told that a number is not hidden, and kr_fd_dup waits. fd: what was made, or -errno, which is
 * returned. Nothing but the making call may stand between. -EAGAIN: the number was one of ours that the
 * payload had closed meanwhile (a close that began before it was ours); what is made may be in use under it. */
void kr_fd_hide_begin(void);
int kr_fd_hide_end(int fd, int kind, int *holder);

/* Values of kind: what drops the descriptor. */
#define KR_FD_EXEC_DROPS 1 /* execve */
#define KR_FD_FORK_DROPS                                                                                     \
    2 /* execve, and a fork child closes it: the VM and its vCPUs belong to one process */

/* Forgets and closes a dynamic descriptor; *holder becomes -1. */
void kr_fd_drop(int *holder);

/* Writes the dynamic numbers, ascending, into out[max]; returns how many there are. */
int kr_fd_list(int *out, int max);

/* Around the making of a task that runs on this mm with a descriptor table of its own (vfork, clone(CLONE_VM) without CLONE_FILES).
 * Begin right before the clone: until kr_fd_copy_made no descriptor is made that the copy would have under a number that is not
 * hidden. The child calls kr_fd_copy_made first of all, and the parent again when the clone returns (a child may be killed before).
 * kr_fd_copy_end when no process can have that copy any more: meanwhile no number is given back, for the copy still holds our files
 * under them. A child that made such tasks itself (kr_fd_copy_stays) may have left its copy to them: then for good.
 * child: names the copy. */
void kr_fd_copy_begin(const void *child);
void kr_fd_copy_made(const void *child);
void kr_fd_copy_end(void);
void kr_fd_copy_stays(void);

/* Around fork: the lock is held over it. The parent calls kr_fd_fork_parent afterwards, the child
 * kr_fd_after_fork. */
void kr_fd_before_fork(void);
void kr_fd_fork_parent(void);

/* In a fork child (resets the lock): closes the dynamic descriptors of kind KR_FD_FORK_DROPS, keeps the
 * others; fills the slots that other threads of the parent were using. */
void kr_fd_after_fork(void);

#endif
