/* SPDX-License-Identifier: Apache-2.0
 * Robust futex lists where the kernel's own walk would do harm; why: sys/futex.c. */
#ifndef KR_SYS_ROBUST_H
#define KR_SYS_ROBUST_H

#include "../machine/vmm.h"

/* Before a thread ends while its address space lives on (exit of one thread of several): walks the
 * thread's list with checks and makes the kernel forget it. Not needed when the whole process ends. Runs on
 * the task's own thread. */
void kr_robust_exit(struct kr_task *t);

/* Before t makes another task, which is on mm->tasks already: a thread, or a process, for whose life no list
 * of the mm may be walked by the kernel. Runs on t's own thread, without mm->lock. */
void kr_robust_share(struct kr_task *t, int process);
/* When a process so made is gone from the mm, or was not made, and is off mm->tasks. */
void kr_robust_unshare(struct kr_task *t, int process);
/* In a fork child: the kernel has forgotten the list. */
void kr_robust_after_fork(struct kr_task *t);

#endif
