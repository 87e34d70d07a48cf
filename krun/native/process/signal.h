/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals. Dispositions and masks are mirrored to the host thread, so queueing, default actions, stop and
 * continue, job control, signalfd and wait statuses are the kernel's. The host handler (hostsig.c) stores one
 * caught signal in task->info and blocks all others until the run loop has built the payload's frame
 * (sigframe.c) and set the mask that holds in its handler.
 */
#ifndef KR_SIGNAL_H
#define KR_SIGNAL_H

#include "../machine/vmm.h"

/* Installs the handlers that the monitor needs itself (SIGSEGV, SIGBUS) and learns what was ignored or
 * blocked at exec. */
void kr_signal_init(struct kr_task *t);

/* RLIMIT_CORE may have changed, by a call of the process itself. No lock held. */
void kr_signal_cores(struct kr_task *t);

/* Before re-entering the guest: delivers task->info, if caught. restart: the interrupted call is to be
 * executed again. */
void kr_signal_deliver(struct kr_task *t);

/* A fault of the payload itself: to its handler, or the process dies of it (as force_sig_fault() in the
 * kernel). */
void kr_signal_force(struct kr_task *t, int sig, int code, u64 addr, int trapno, u64 error);

/* Bodies of the calls (sys/sig.c is their face). */
long kr_sigaction_set(struct kr_task *t, int sig, const struct kr_sigaction *act, struct kr_sigaction *old);
void kr_sigmask_set(struct kr_task *t, kr_sigset mask);
long kr_sigreturn(struct kr_task *t);

/* For calls that take a temporary mask: copies it in from the payload (size must be 8), strips what the
 * monitor needs, and announces it in task->wait_mask. *host receives the mask for the host call; call
 * kr_wait_mask_end after the host call. 0, -EINVAL or -EFAULT. A null pointer is no mask: returns 1. */
long kr_wait_mask_begin(struct kr_task *t, u64 ptr, u64 size, kr_sigset *host);
void kr_wait_mask_end(struct kr_task *t);

#endif
