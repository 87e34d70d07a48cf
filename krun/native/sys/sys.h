/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving the payload's system calls.
 *
 * THE table is table/syscalls.def: one line per call of Linux x86-64. From it follow dispatch, pointer
 * checks, names, the trace and docs/syscalls.md. sys/table.c includes it and does, for each call: look up the
 * row; evaluate the seccomp filters (if any); check the argument kinds (a descriptor of the monitor's own is
 * EBADF, a pointer outside the window EFAULT); then forward it unchanged through kr_call_intr, call the row's
 * handler, or refuse it with the row's errno.
 *
 * A handler is a function of (task, six arguments), which it gets as a private copy: it never reads the
 * registers. Returns the value or -errno, or -KR_ERESTART. Handlers never assume that they run on the thread
 * that called KVM_RUN, unless the row says KR_CALL_THREAD.
 */
#ifndef KR_SYS_SYS_H
#define KR_SYS_SYS_H

#include "../machine/vmm.h"
#include "../machine/usercopy.h"
#include "../table/rows.h"

typedef long kr_sys_fn(struct kr_task *t, const u64 a[6]);

/* Serves t->nr with t->args: the value for rax, or -KR_ERESTART. (sys/table.c) */
long kr_syscall(struct kr_task *t);

/* Forwards with arguments already checked; the common tail of handlers. */
#define kr_forward(nr, a) kr_call_intr((nr), (a)[0], (a)[1], (a)[2], (a)[3], (a)[4], (a)[5])

/* 0 when `pid` is a thread of the calling process, else -ESRCH or -EPERM (sys/self.c). */
long kr_own_thread(u64 pid);

#endif
