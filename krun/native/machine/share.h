/* SPDX-License-Identifier: Apache-2.0
 *
 * More threads than vCPUs. While KVM gives every thread a vCPU of its own nothing here runs. Once it refused
 * one (vm.scarce), a thread gives its vCPU back for the time of a call that may block, and when another
 * thread waits for one; its registers then stand in a copy of the run page, so that handlers and the signal
 * code see no difference.
 */
#ifndef KR_SHARE_H
#define KR_SHARE_H

#include "mm.h"

/* Gives t a run page without a vCPU, with the given state. 0 or -ENOMEM. */
int kr_share_prepare(struct kr_task *t);
/* Releases t's vCPU, if it has one (best effort: without memory it keeps it). */
void kr_share_release(struct kr_task *t);
/* Waits until t has a vCPU, loaded with its state. Called at the run loop: t may come to a stand here
 * (quiesce.h). */
void kr_share_acquire(struct kr_task *t);

/* Whether a thread waits for a vCPU; whether KVM has refused one. No lock needed: a hint. */
int kr_share_wanted(const struct kr_task *t);
int kr_share_scarce(const struct kr_task *t);

#endif
