/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops all threads of a process at a point where the process is consistent: each thread is out of the guest
 * and out of blocking calls, holds no lock of the monitor, and its registers say where the payload continues.
 * Threads stop at the run loop (monitor/run.c), where they wait for a vCPU (machine/share.c), or between two parts of
 * a transfer (kr_ask_goes_on; the registers are those of the call), and at no other place. The writer of core files uses it.
 *
 *   requester                                        every other thread of the process
 *   proc->quiesce.by = itself
 *   KR_ASKED_STAND in task->asked, and a SIGBUS  -->  gives up its blocking call, as for a question (view/ask.h):
 *                                                     the call is executed again with the rest of its time, and
 *                                                     the payload does not notice
 *   waits                                        <--  task->standing = 1
 *   ... the process is consistent ...
 *   proc->quiesce.by = NULL                      -->  continues
 *
 * The SIGBUS carries only KR_QUIESCE_KICK: it interrupts and has no other meaning. A timer sends it, too
 * (private.c). A payload that sends the same signal only interrupts a call, and the call continues. The requester sends the signal again until the
 * thread has stopped, because the kernel drops a standard signal while an equal one is pending.
 *
 * - A thread whose host call cannot be interrupted, and which touches nothing while it waits (the parent of a
 *   vfork child), counts as stopped for that time: kr_quiesce_away, kr_quiesce_back. Its registers are those of
 *   the call; task->nr has the number.
 * - A thread that starts gets the request from the thread that makes it. A thread that ends leaves mm->tasks.
 *   Both happen under mm->lock, under which the requester counts.
 * - A second requester stops for the first one, and has its own turn afterwards.
 * - Processes that share the memory (CLONE_VM without CLONE_THREAD) run on: a request is for one process. They
 *   may hold locks and change memory, but never registers of this process.
 * - A transfer that was cut short goes on afterwards (kr_ask_goes_on has which ones); others return their part, as after
 *   a signal.
 * - SIGKILL ends all threads at every point.
 *
 * State: proc->quiesce, task->standing. Lock: mm->lock.
 */
#ifndef KR_QUIESCE_H
#define KR_QUIESCE_H

#include "../machine/above.h"

#define KR_QUIESCE_KICK 0x6b72756e71756965ULL /* "krunquie" */

struct kr_ucontext;

/* Stops the other threads of t's process. Called on t's own thread without a lock. patience: nanoseconds. 0,
 * or -ETIMEDOUT if a thread is in a host call that does not end; then all threads continue. After 0 the
 * caller ends the stop with kr_quiesce_end, or ends the process. */
long kr_quiesce(struct kr_task *t, u64 patience);
void kr_quiesce_end(struct kr_task *t);

/* Stops the calling thread until no other thread's request is in force. kr_quiesce_stand: without a lock.
 * kr_quiesce_stand_locked: with mm->lock, which is released meanwhile. */
void kr_quiesce_stand(struct kr_task *t);

/* Called before and after a host call that cannot be interrupted (above), without a lock. */
void kr_quiesce_away(struct kr_task *t);
void kr_quiesce_back(struct kr_task *t);

/* Gives a new task of the process the request that is in force. Lock: mm->lock, held until the task is on
 * mm->tasks. */
void kr_quiesce_join(struct kr_task *t);

/* Called by the host signal handler for a SIGBUS. Returns whether the signal was a kick. */
int kr_quiesce_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc);

#endif
