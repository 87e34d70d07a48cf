/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving the payload's system calls.
 * THE table is table/syscalls.def: one row per system call of Linux x86-64. Dispatch, pointer checks, names,
 * the trace and docs/syscalls.md follow from it. For each call, sys/table.c
 *
 *   1. evaluates the seccomp filters, if any;
 *   2. looks up the row;
 *   3. checks the arguments by their kinds: a hidden descriptor gives EBADF, a pointer outside the window
 *   EFAULT; 4. forwards the call through kr_call_intr, calls the row's handler, or refuses with the row's
 *   errno.
 *
 * A handler is a function of the task and six arguments. The arguments are a private copy: a handler never
 * reads the registers. It returns the value, -errno or -KR_ERESTART. A handler never assumes that it runs on
 * the thread that called KVM_RUN, unless the row says KR_CALL_THREAD.
 */
#ifndef KR_SYS_SYS_H
#define KR_SYS_SYS_H

#include "../machine/vmm.h"
#include "../machine/usercopy.h"
#include "../table/rows.h"

typedef long kr_sys_fn(struct kr_task *t, const u64 a[6]);

/* Serves t->nr with t->args: the value for rax, or -KR_ERESTART. (sys/table.c) */
long kr_syscall(struct kr_task *t);

/* Forwards a call whose arguments are checked: the last step of many handlers. */
#define kr_forward(nr, a) kr_call_intr((nr), (a)[0], (a)[1], (a)[2], (a)[3], (a)[4], (a)[5])

/* sys/notify.c: asks the agent of the OCI profile about the call t->nr with t->args. 1: the call is to be served; the caller
 * says kr_notify_served with its result (a task that an execve or a fork makes need not). 0: *ret is its result, or
 * -KR_ERESTART. */
int kr_notify(struct kr_task *t, long *ret);
void kr_notify_served(struct kr_task *t, long ret);

/* 0 when `pid` is a thread of the calling process, else -ESRCH or -EPERM (sys/self.c). */
long kr_own_thread(u64 pid);

#endif
