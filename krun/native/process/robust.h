/* SPDX-License-Identifier: Apache-2.0
 *
 * Robust futex lists in the cases where the kernel's own walk of a list would write to the monitor's memory.
 * sys/futex.c explains the cases.
 */
#ifndef KR_SYS_ROBUST_H
#define KR_SYS_ROBUST_H

#include "../machine/vmm.h"

/* Called before a thread ends while its address space continues (exit of one thread of several): walks the
 * thread's list with checks and makes the kernel forget the list. Not needed when the whole process ends.
 * Runs on the task's own thread. */
void kr_robust_exit(struct kr_task *t);

/* Called before t makes another task, which is on mm->tasks already: a thread, or a process. While such a
 * process exists the kernel must not walk any list of the address space. Runs on t's own thread without
 * mm->lock. */
void kr_robust_share(struct kr_task *t, int process);
/* Called when a CLONE_VM child has left the address space, or when its clone has failed. The child is no
 * longer in mm->tasks. */
void kr_robust_unshare(struct kr_task *t, int process);
/* Called when a process is buried (bury.h): its last task is off mm->tasks. Lock: mm->lock. */
void kr_robust_left(struct kr_task *t);
/* Called in a fork child, where the kernel has forgotten the list. */
void kr_robust_after_fork(struct kr_task *t);

#endif
