/* SPDX-License-Identifier: Apache-2.0
 *
 * More threads than vCPUs. This code does not run while KVM gives each thread a vCPU of its own. Once KVM has
 * refused one (vm.scarce), a thread gives its vCPU back for the time of a call that may block, and when
 * another thread waits for a vCPU. A thread that makes no call is interrupted after a time slice, by a waiter of its
 * own process (a relative made with CLONE_VM alone waits until the other makes a call). The thread's registers then are in a copy of the run page, so that handlers
 * and the signal code see no difference.
 */
#ifndef KR_SHARE_H
#define KR_SHARE_H

#include "mm.h"

/* Gives t a run page (task->parked) and an XSAVE buffer in place of a vCPU; kr_cpu_load fills them. 0 or
 * -ENOMEM. */
int kr_share_prepare(struct kr_task *t);
/* Gives back t's vCPU, if t has one. Best effort: t keeps the vCPU if there is no memory for its state. */
void kr_share_release(struct kr_task *t);
/* Waits until t has a vCPU, and loads t's state into it. Called by the run loop. t may come to a stand here
 * (quiesce.h). */
void kr_share_acquire(struct kr_task *t);

/* Whether a thread waits for a vCPU. A hint: no lock is needed. */
int kr_share_wanted(const struct kr_task *t);
/* Whether KVM has refused a vCPU. A hint, too. */
int kr_share_scarce(const struct kr_task *t);

#endif
