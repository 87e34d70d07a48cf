/* SPDX-License-Identifier: Apache-2.0
 * Processes and threads: clone, fork, vfork, execve, exit. Bodies of the calls; sys/proc.c is their face. */
#ifndef KR_PROCESS_H
#define KR_PROCESS_H

#include "../machine/vmm.h"

/* In proc->flags, besides KR_BOOTF_*: the payload said PR_SET_DUMPABLE 0. fork keeps it, an execve clears it.
 */
#define KR_PROCF_UNDUMPABLE 0x80000000u
/* Its maker, which waits for it, takes its task and its kr_proc back as soon as its first thread ends. A second
 * thread would go on using them: such a process makes none. */
#define KR_PROCF_LENT 0x10000000u
/* It is in another user namespace than the container gave it; for good. */
#define KR_PROCF_USERNS 0x20000000u

/* struct clone_args of clone3(2), version 2. */
struct kr_clone_args {
    u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
};

/* clone, clone3, fork, vfork. The caller has copied and checked the arguments. Returns the child's id or
 * -errno; the child does not return. */
long kr_clone(struct kr_task *t, const struct kr_clone_args *ca);

/* Executes a host call while the process has no VM and so, if the task is its only one, no thread besides:
 * for calls that Linux refuses with EINVAL or EUSERS to a process of several threads. The call must not
 * block. The call's result; -EINVAL if there are other tasks. */
long kr_call_alone(struct kr_task *t, long nr, const u64 a[6]);
/* Whether the calling thread's children go to another pid namespace than its own. */
int kr_children_elsewhere(void);

/* A host stack: KR_STACK_SIZE bytes behind a guard of KR_STACK_GUARD. Its lowest address, or NULL. */
#define KR_STACK_SIZE (64u << 10)
#define KR_STACK_GUARD KR_PAGE
void *kr_stack_new(void);
/* The host's call for ca: clone(2) where it can say all of it, because its flags stand in a register, where
 * filters see them (filter/profile.h); clone3(2) for what only a payload's clone3 asks. The child runs fn(arg)
 * on its new stack; fn NULL (a fork): it returns from here with 0. The parent gets the child's id, or -errno.
 */
long kr_host_clone(struct kr_clone_args *ca, void (*fn)(struct kr_task *), struct kr_task *arg);

/* Executes a host call whose relative paths start at directory `cwd` (a descriptor): on a short-lived host
 * thread that shares all with t but the working directory and the descriptor table. For calls that take paths
 * and no directory, when the path must be the monitor's own (/proc/thread-self/fd/N below its procfs handle).
 * The call's result; -EAGAIN, -ENOMEM: no thread. */
long kr_call_from(struct kr_task *t, int cwd, long nr, const u64 a[6]);

/* Gives back what a task owns but its stack and itself (mm->lock held). */
void kr_task_release(struct kr_task *t);

/* execve, execveat. path is a private copy. Returns -errno only. */
long kr_execve(struct kr_task *t, int dirfd, const char *path, u64 argv, u64 envp, int flags);

/* Runs the calling thread's guest code until it exits. */
void kr_run(struct kr_task *t) __noreturn;

/* What kind of program an open file is: 0 an ELF we run; 1 a script; -ENOEXEC, -ELIBBAD, ... with the reason
 * in *why. */
int kr_elf_classify(int fd, const char **why);

/* Publishes arguments, environment, auxv, heap and stack bounds to the kernel (PR_SET_MM_MAP), so that
 * /proc/PID/{cmdline,environ,auxv} show the payload's. Best effort. */
void kr_publish_mm(struct kr_mm *mm);

#endif
