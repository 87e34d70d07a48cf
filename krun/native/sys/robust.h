/* SPDX-License-Identifier: Apache-2.0
 * Robust futex lists at the end of a thread; why: sys/futex.c. */
#ifndef KR_SYS_ROBUST_H
#define KR_SYS_ROBUST_H

#include "../vmm/vmm.h"

/* Before a thread ends while its address space lives on (exit of one thread of several): walks the
 * thread's list with checks and makes the kernel forget it. Not needed when the whole process ends. Runs on
 * the task's own thread. */
void kr_robust_exit(struct kr_task *t);

#endif
