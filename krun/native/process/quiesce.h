/* SPDX-License-Identifier: Apache-2.0
 *
 * Bringing all threads of a process to a stand, at a point where the process is consistent: each is out of
 * the guest and out of blocking calls, holds no lock of the monitor's, and its registers say where the payload
 * goes on. Threads stand at the run loop (monitor/run.c), or where they wait for a vCPU (machine/share.c), nowhere
 * else. One writer of core files uses it.
 *
 *   requester                                        every other thread of the process
 *   proc->quiesce.by = itself
 *   KR_ASKED_STAND in task->asked, and a SIGBUS  -->  gives up its blocking call, as for a question (ask.h):
 *                                                     the call is executed again, with what is left of its
 *                                                     time, and the payload does not notice
 *   waits                                        <--  task->standing = 1
 *   ... the process is consistent ...
 *   proc->quiesce.by = NULL                      -->  goes on
 *
 * The SIGBUS carries nothing but KR_QUIESCE_KICK: it interrupts and means nothing by itself, so that a payload
 * that sends it only interrupts a call, which goes on. It is sent again until the thread stands: a standard
 * signal that is pending swallows an equal one.
 *
 * - A thread whose host call cannot be interrupted, and which touches nothing while it waits (the parent of a
 *   vfork child), counts as standing for that time: kr_quiesce_away, kr_quiesce_back. Its registers are those
 *   of the call: task->nr says which.
 * - A thread that is being made has the request from its maker; one that ends leaves mm->tasks. Both under
 *   mm->lock, under which the requester counts.
 * - A second requester stands for the first one, and then has its own turn.
 * - Processes that share the memory (CLONE_VM without CLONE_THREAD) go on: a request is about one process.
 *   They may hold locks and change memory, but never registers of this process.
 * - A write that had moved some bytes when the request came returns their number, as on a signal.
 * - SIGKILL ends all threads, whatever they do here.
 *
 * State: proc->quiesce, task->standing; under mm->lock.
 */
#ifndef KR_QUIESCE_H
#define KR_QUIESCE_H

#include "../machine/above.h"

#define KR_QUIESCE_KICK 0x6b72756e71756965ULL /* "krunquie" */

struct kr_ucontext;

/* Brings the other threads of t's process to a stand. On t's own thread, no lock held. patience: nanoseconds;
 * 0 or -ETIMEDOUT (a thread is in a host call that does not end; then all go on). After 0 the caller ends it
 * with kr_quiesce_end, or ends the process. */
long kr_quiesce(struct kr_task *t, u64 patience);
void kr_quiesce_end(struct kr_task *t);

/* Stands until no other thread's request is on. kr_quiesce_stand: no lock held; _locked: mm->lock held, and
 * released meanwhile. */
void kr_quiesce_stand(struct kr_task *t);

/* Around a host call as above. No lock held. */
void kr_quiesce_away(struct kr_task *t);
void kr_quiesce_back(struct kr_task *t);

/* A new task of a process joins mm->tasks (mm->lock held). */
void kr_quiesce_join(struct kr_task *t);

/* In the host's handler, for a SIGBUS: whether it was a kick. */
int kr_quiesce_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc);

#endif
