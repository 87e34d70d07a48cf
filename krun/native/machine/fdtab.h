/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own descriptors, among the payload's. The payload can neither see nor touch them. There are
 * three classes:
 *
 *   fixed    [base, base + KR_FD_FIXED): /dev/kvm, the monitor's file, the procfs handle and others. The first
 *            monitor of a container or exec chooses base; fork and execve hand the numbers on. No number is
 *            ever moved or closed. The jail refuses, in the kernel, dup2 and dup3 onto them, close and
 *            close_range over them, and fcntl of them (filter/jail.c).
 *   slots    the numbers behind the fixed ones, and the plug behind them. They are always occupied, so that the kernel never gives one
 *            of them to the payload. A descriptor that is judged is in a slot from before the judgement to its
 *            last use.
 *   dynamic  the VM, its vCPUs, the program: numbers in a table under fdtab_lock.
 *
 * The payload gets EBADF for all of them, as for a number that is not open. For fixed numbers and slots the
 * check is one compare with constants. It uses no lock and no table, so nothing can change between the check
 * and the call. A dynamic number comes and goes. Between the check of a number and its use in the kernel the
 * number must not become one of the monitor's, or a close(2) that another thread has begun would close it. So a
 * thread writes down the numbers that its call names, before the check and until the call returns (kr_fd_name).
 * No descriptor of the monitor's gets a number that a call names (fdname.c).
 *
 * fdtab_lock is the lock of this file; only heap_lock may be taken inside it. A vfork child has its own
 * descriptor table in the kernel but the same numbers here: it never makes a dynamic one.
 *
 * Sources: fdslot.c (fixed numbers and slots), fdtab.c (dynamic numbers), fdname.c (numbers that calls name),
 * fdlimit.c (RLIMIT_NOFILE).
 */
#ifndef KR_FDTAB_H
#define KR_FDTAB_H

#include "vmm.h"

/* ---- Fixed numbers and slots ---- */

#define KR_FD_FIXED 8  /* fixed numbers */
#define KR_FD_SLOTS 24 /* slots behind them; fewer if RLIMIT_NOFILE is very low */
/* Slots that a task may hold: for a program, its interpreter, and what a path walk judges. */
#define KR_FD_SLOTS_TASK 3

/* Places among the fixed numbers. A place without a descriptor holds the placeholder. */
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

/* Chooses base and occupies fixed numbers and slots; called for the first program of a container or exec.
 * Moves *fd[i] to base + i, stores the new number in *fd[i] (-1 stays: absent) and closes the old one. All
 * other fixed numbers and all slots get the placeholder. The number behind the slots gets `plug`, which is closed: an O_PATH
 * descriptor of a symbolic link, with which no call can do anything (fdname.c). 0; -EMFILE: RLIMIT_NOFILE has no room; -EBUSY: a
 * number is in use. Then *number is the number concerned. */
int kr_fd_fix(int *const fd[KR_FD_FIXED], int plug, int *number);
/* The same in a monitor that execve started: base and slots are as `place` says (kr_fd_place). t holds the
 * slots among kept[nkept] from now on; all other slots that were in use get the placeholder again. 0;
 * -EINVAL: `place` is no place. */
int kr_fd_fixed_again(struct kr_task *t, u64 place, const int *kept, u32 nkept);

/* Moves fd into a slot, where no other thread can reach it, and closes fd. fd is a descriptor that a call has
 * just made at an ordinary number. The caller judges and uses the returned number, and ends with kr_slot_free.
 * While no other task shares the descriptor table, no other thread can reach fd: then fd itself is returned.
 *
 * Only a descriptor that the payload may hold itself may be made at an ordinary number: an O_PATH one, of what
 * the container's own paths lead to. All others are made inside kr_private.
 *
 * Slots come in groups of KR_FD_SLOTS_TASK. A task without a slot waits for a free group. A task that holds a
 * slot never waits, so tasks do not block each other. Before a call that may block for long (open of a FIFO, or of a file with a lease) a task that
 * holds a slot asks kr_slot_linger: some groups are left for others.
 *
 * A negative fd is returned as it is. -EMFILE: RLIMIT_NOFILE does not allow it, or t holds KR_FD_SLOTS_TASK;
 * -KR_ERESTART: a signal came first. fd is closed in both cases. */
int kr_slot_put(struct kr_task *t, int fd);
/* The same for a descriptor of the payload's own: a duplicate goes into the slot, fd stays open. -EBADF: fd is
 * not open, or is hidden. */
int kr_slot_dup(struct kr_task *t, u64 fd);
/* Makes the call nr(a[0..3]), which makes a descriptor, and puts it into a slot: no other thread can copy it or put another
 * one in its place, as kr_slot_put allows. slot: what has a slot, and is replaced; -1: another slot. A vfork child, which makes no
 * hidden descriptors, and a task that shares its table with nobody have what kr_slot_put has. The call does not
 * block. As kr_slot_put; if it fails, `slot` is given back. Takes mm->lock. */
int kr_slot_make(struct kr_task *t, int slot, long nr, const u64 a[4]);
/* The same, for a call whose path names the payload's descriptor `number`; -EBADF: it is one of the monitor's. Not by a copy of the
 * descriptor: see KR_PROCF_RECORD_LOCKS below. */
int kr_slot_make_of(struct kr_task *t, u32 number, long nr, const u64 a[4]);
/* Takes fd out of its slot, to the lowest number: cmd F_DUPFD or F_DUPFD_CLOEXEC. fd itself if it is in none. The number or
 * -errno; the slot is given back in both cases. */
long kr_slot_out(int fd, int cmd);
/* Gives back what kr_slot_put or kr_slot_dup returned. Does nothing for a negative number. The descriptor is closed under
 * fdtab_lock. */
void kr_slot_free(int fd);
/* The same for what may be a socket of the payload's (kr_slot_dup): its last close can wait for hours (SO_LINGER), so no lock is
 * held. Takes mm->lock. */
void kr_slot_free_slow(struct kr_task *t, int fd);
/* Whether the caller may keep the slot fd, and with it the task's group, through a call that may block for long. 0: too
 * many do; the caller gives the slot back and comes again later. 1 also for a number that is no slot. Holds until the
 * task's last slot is given back. */
int kr_slot_linger(int fd);
/* Gives back all slots of a task that has ended and could not do it itself. */
void kr_slots_release(struct kr_task *t);

/* Runs fn(arg) where no other task can reach the descriptors that fn makes (process/private.c). That is in
 * place while no other task shares the descriptor table; else it is on a short-lived host thread with a copy of
 * the table. The whole copy is closed when fn returns. fn closes what it made, does not touch t's registers,
 * and makes no call that the payload can make block. fn's result; -EAGAIN, -ENOMEM: no thread. */
long kr_private(struct kr_task *t, long (*fn)(void *arg), void *arg);
/* The same, always on a thread with a copy: so fn may close any number. The thread's working directory is a copy,
 * too: fn may change it. */
long kr_alone(struct kr_task *t, long (*fn)(void *arg), void *arg);

/* Whether other tasks use the same descriptor table: threads of the process, or processes that CLONE_FILES
 * made. The flag stands in proc->flags and is never taken back. */
#define KR_PROCF_SHARED_FILES 0x40000000u
/* A process of this memory has asked for a record lock (F_SETLK of fcntl(2)). The kernel takes all record locks of a file from a
 * process that closes any descriptor of that file (locks_remove_posix()). So the monitor closes no descriptor of a file that the
 * payload may have open, but O_PATH ones, which do not count; what has to be closed is made where another table is the owner
 * (kr_private, kr_alone). That costs a thread, so mmap(2) and truncate(2) do it only in a process with this flag. An execve keeps it. */
#define KR_PROCF_RECORD_LOCKS 0x02000000u
static inline int kr_files_shared(struct kr_task *t) {
    return __atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED) > 1 ||
           __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_SHARED_FILES;
}
static inline void kr_files_share(struct kr_proc *a, struct kr_proc *b) {
    __atomic_fetch_or(&a->flags, KR_PROCF_SHARED_FILES, __ATOMIC_RELAXED);
    __atomic_fetch_or(&b->flags, KR_PROCF_SHARED_FILES, __ATOMIC_RELAXED);
}

/* ---- What the payload may touch ---- */

/* Whether fd is one of the monitor's: the payload gets EBADF for it. For a number that the caller uses under
 * fdtab_lock, that is in a structure, or that it does not give the kernel; else kr_fd_name. */
int kr_fd_hidden(u64 fd);
/* Whether a listing that the kernel has made before shows the payload fd. Not what was hidden then and has left the table since:
 * it is closed before it leaves (kr_fd_passed). */
int kr_fd_listed(u64 fd);

/* Whether a call that another task makes names fd. Takes mm->lock. */
int kr_fd_in_call(struct kr_mm *mm, u32 fd);

/* Place in kr_task.named of the number that kr_fd_shut closes; the places before it are the call's. */
#define KR_NAMED_SHUT 2
#define KR_NAMED_ONTO 1 /* the number that dup2(2) and dup3(2) replace */
/* Checks argument i (0 or 1) of t's call, a descriptor, and writes it down in t->named until kr_fd_unname.
 * Whether the call may use it; 0: it is one of the monitor's. */
int kr_fd_name(struct kr_task *t, u32 i, u64 fd);
/* How many plugs the table has (fdname.c): a hint. Removes those that no call can take away any more. */
extern u32 kr_fd_plugs;
void kr_fd_drop_plugs(struct kr_task *t);
/* The call has returned. The numbers that were plugged because of it become free, as the payload expects. */
static inline void kr_fd_unname(struct kr_task *t) {
    for (u32 i = 0; i < KR_COUNT(t->named); i++)
        if (t->named[i])
            __atomic_store_n(&t->named[i], 0, __ATOMIC_RELEASE);
    if (__atomic_load_n(&kr_fd_plugs, __ATOMIC_RELAXED) &&
        !t->vcpu_limit) /* else a copy: the plugs stand in another table */
        kr_fd_drop_plugs(t);
}
/* Closes a descriptor that the calling thread has made at an ordinary number; nothing if fd is negative. A thread
 * of the payload may have closed fd, and the number may have become one of the table since: then it stays open.
 * The thread writes down the number meanwhile, as kr_fd_name does. No lock is held during the close, which may
 * wait for a file system. Inside fdtab_lock, close(2) itself is used. */
void kr_fd_shut(long fd);

/* dup(2), F_DUPFD and F_DUPFD_CLOEXEC (cmd, with the least number) of one of the payload's descriptors. Check
 * and call are one step under fdtab_lock: a descriptor of the monitor's that comes or goes meanwhile is never
 * copied. The number or -errno. */
long kr_fd_dup(u64 fd, int cmd, u64 least);
/* Makes call nr(fd, a, b) on one of the payload's descriptors. nr changes something of the number itself (F_SETFD,
 * FIOCLEX, FIONCLEX) and does not block. Check and call are one step under fdtab_lock: so a descriptor of the
 * monitor's that comes meanwhile stays close-on-exec, which alone keeps it from the next program. The call's
 * result; -EBADF: fd is hidden. */
long kr_fd_call(u64 fd, long nr, u64 a, u64 b);
/* dup3(2) and dup2(2), check and call in one step. What is at `to` is closed under fdtab_lock. -EBADF: one of the two numbers is
 * hidden. */
long kr_fd_dup_onto(u64 fd, u64 to, u64 flags);
/* Duplicates one of the payload's descriptors for a call that is being made. The duplicate is hidden until
 * kr_fd_passed closes it, so that no thread can put another file under its number. kr_fd_passed holds no lock during the
 * close. The number or -errno. Called without a lock; takes mm->lock. */
int kr_fd_pass(struct kr_mm *mm, u64 fd);
void kr_fd_passed(int fd);
/* close_range(2) that leaves out the monitor's descriptors, under fdtab_lock. 0 or -errno. */
long kr_fd_close_range(u64 first, u64 last, u64 flags);

/* prlimit(2) of RLIMIT_NOFILE for the calling process. fresh: the new soft and hard limit, or NULL; old: what
 * they were. The hard limit that the payload sees may be lower than the kernel's, which leaves room for the
 * numbers of this file. 0 or -errno. */
long kr_fd_limit(struct kr_task *t, const u64 fresh[2], u64 old[2]);

/* ---- Dynamic numbers ---- */

/* Moves fd to a number out of the payload's usual range, enters that number into the table, and closes fd.
 * kind: what drops the descriptor. Returns the new number, which is also stored in *holder; or -errno: then fd
 * is closed and *holder is -1. Called while no other task shares the descriptor table. */
int kr_fd_hide(int fd, int kind, int *holder);

/* The same around the call that makes a descriptor. The kernel gives it the lowest free number, which is among
 * the payload's until kr_fd_hide_end has moved it, and another thread may name any number. Between begin and
 * end fdtab_lock is held: kr_fd_name, kr_fd_hidden and kr_fd_dup wait. Calls that began before kr_fd_hide_begin
 * may still name free numbers; these numbers are plugged meanwhile. Only the call that makes the descriptor
 * stands between the two. fd: what that call gave; -errno is returned as it is. mm->lock is held from before
 * begin to after end; mm NULL: no other task shares the descriptor table.
 * holder: static, or of a vCPU. The table keeps the address: a task, or what lies on its stack, goes with a process that is killed
 * (bury.c). NULL: the descriptor is for the time of the call, until kr_fd_made.
 * -EAGAIN: the kernel gave a number that a call names, or one of the table, because another thread has closed
 * it in the middle. The new descriptor is closed; the caller may make another one. */
void kr_fd_hide_begin(const struct kr_mm *mm);
int kr_fd_hide_end(const struct kr_mm *mm, int fd, int kind, int *holder);

/* Drops a descriptor that kr_fd_hide_end has made without a holder. */
void kr_fd_made(int fd);

/* Values of kind: what drops the descriptor. */
#define KR_FD_EXEC_DROPS 1 /* execve */
#define KR_FD_FORK_DROPS 2 /* execve and fork's child: the VM and its vCPUs belong to one process */

/* Closes a dynamic descriptor and removes it from the table; *holder becomes -1. */
void kr_fd_drop(int *holder);

/* How many descriptors of the descriptor table are the monitor's: of all three classes. */
u32 kr_fd_hidden_count(void);
/* Writes at most max dynamic numbers, ascending, into out[]. Returns how many there are. */
int kr_fd_list(int *out, int max);

/* Around the clone of a task that runs on this mm with a descriptor table of its own: vfork, or
 * clone(CLONE_VM) without CLONE_FILES.
 *
 *   begin  right before the clone. Until kr_fd_copy_made no descriptor is made, because the copy could have it
 *          under a number that is not hidden.
 *   made   in the parent when the clone returns, with kr_lock_self(). With CLONE_VFORK the parent returns only
 *          when the child is gone, so the child calls it first of all, with the parent's kr_lock_self().
 *   end    when no process can have the copy any more. Until then no number leaves the table, because the copy
 *          still holds the monitor's files under those numbers.
 *   stays  for a child that made such tasks itself: it may have left its copy to them, so the numbers stay in
 *          the table for good. */
void kr_fd_copy_begin(void);
void kr_fd_copy_made(u64 parent);
void kr_fd_copy_end(void);
void kr_fd_copy_stays(void);

/* Called by the heir of a lock (lib/kr_lock.h). Ends the process if the lock is fdtab_lock and the table, or a
 * descriptor, was half made: the payload could reach that descriptor. */
void kr_fd_heir(const struct kr_lock *l);

/* Around fork, which happens with fdtab_lock held. Afterwards the parent calls kr_fd_fork_parent, the child
 * kr_fd_after_fork. */
void kr_fd_before_fork(void);
void kr_fd_fork_parent(void);

/* In a fork child: resets the lock, closes the dynamic descriptors of kind KR_FD_FORK_DROPS, and fills the
 * slots that other threads of the parent were using. */
void kr_fd_after_fork(void);

#endif
