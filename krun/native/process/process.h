/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and threads: the bodies of clone, fork, vfork, execve and exit. sys/proc.c has the handlers.
 */
#ifndef KR_PROCESS_H
#define KR_PROCESS_H

#include "../machine/vmm.h"

/* Bits of proc->flags besides KR_BOOTF_*. The payload has called PR_SET_DUMPABLE with 0. A fork keeps the
 * bit, an execve clears it. ns.h has two more bits. */
#define KR_PROCF_UNDUMPABLE 0x80000000u
/* An effective or file-system id of a thread has changed since the process became dumpable. A fork keeps the bit,
 * PR_SET_DUMPABLE clears it; after an execve it says whether the ids before it differed (kr_ids_differ). */
#define KR_PROCF_IDS_CHANGED 0x04000000u
#define KR_PROCF_DUMPABLE (KR_PROCF_UNDUMPABLE | KR_PROCF_IDS_CHANGED)
/* The process that made this one waits for it, and releases its task and its kr_proc as soon as its first
 * thread ends. A second thread would use them after that, so such a process makes no thread. */
#define KR_PROCF_LENT 0x10000000u

/* struct clone_args of clone3(2), version 2. */
struct kr_clone_args {
    u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
};

/* clone, clone3, fork, vfork. The caller has copied and checked the arguments. Returns the child's id or
 * -errno; the child does not return. */
long kr_clone(struct kr_task *t, const struct kr_clone_args *ca);

/* Executes a host call while the process has no VM, and therefore only one thread, if the task is its only
 * one. For calls that Linux refuses with EINVAL or EUSERS to a process of several threads. The call must not
 * block. Returns the call's result; -EINVAL if there are other tasks. */
long kr_call_alone(struct kr_task *t, long nr, const u64 a[6]);
/* Whether the calling thread's children go to another pid namespace than its own. */
int kr_children_elsewhere(void);

/* Maps a host stack: KR_STACK_SIZE bytes above a guard of KR_STACK_GUARD bytes. Its lowest address, or NULL. */
#define KR_STACK_SIZE (64u << 10)
#define KR_STACK_GUARD KR_PAGE
void *kr_stack_new(void);
/* Makes the host's call for ca. clone(2) is used where it can express all of ca, because its flags stand in a
 * register, where filters see them (filter/profile.h); clone3(2) is used for the rest. The child runs fn(arg)
 * on its new stack; with fn NULL (a fork) the child returns from here with 0. The parent gets the child's id
 * or -errno. */
long kr_host_clone(struct kr_clone_args *ca, void (*fn)(struct kr_task *), struct kr_task *arg);

/* Executes a host call whose relative paths start at directory `cwd` (a descriptor), on a short-lived host
 * thread that shares all with t except the working directory and the descriptor table. For calls that take
 * paths but no directory, where the path must be the monitor's own (/proc/thread-self/fd/N below its procfs
 * handle). Returns the call's result; -EAGAIN, -ENOMEM: no thread. */
long kr_call_from(struct kr_task *t, int cwd, long nr, const u64 a[6]);

/* Closes fd, whose last close may wait for hours: a socket with SO_LINGER (socket(7)), or one in whose queue such a
 * socket waits (SCM_RIGHTS). fn(arg) closes fd in the caller's table; a thread that ends has it then, and the end of
 * a thread does not wait (tcp_close() and its relatives in the kernel look at PF_EXITING). Where no thread can be
 * made, a signal ends the wait. fd -1: fn closes any number, and the thread closes all others itself: it waits instead of fn, and
 * the caller for it. */
void kr_close_aside(struct kr_task *t, int fd, void (*fn)(void *), void *arg);

/* Waits for the errand threads of a task that has ended (private.c): the kernel ends them with it, but not at the same
 * moment. */
void kr_errands_over(struct kr_task *t);

/* Releases what a task owns, except its stack and the task itself. Lock: mm->lock. */
void kr_task_release(struct kr_task *t);

/* execve, execveat. path is a private copy, kr_alloc(4096), which stays the caller's. Returns -errno only. */
long kr_execve(struct kr_task *t, int dirfd, char *path, u64 argv, u64 envp, int flags);

/* Runs the calling thread's guest code until it exits. */
void kr_run(struct kr_task *t) __noreturn;

/* Classifies an open file: 0: an ELF program that can run; 1: a script; -ENOEXEC, -ELIBBAD, ... with the
 * reason in *why. */
int kr_elf_classify(int fd, const char **why);

/* Tells the kernel the bounds of arguments, environment, auxv, heap and stack (PR_SET_MM_MAP), so that
 * /proc/PID/{cmdline,environ,auxv} show the payload's. Best effort. */
void kr_publish_mm(struct kr_mm *mm);

#endif
