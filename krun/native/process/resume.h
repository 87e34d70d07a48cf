/* SPDX-License-Identifier: Apache-2.0
 *
 * Going on as if nothing had been, after an interruption that is not the payload's: another monitor's question
 * (view/ask.h), or a stop of all threads (quiesce.h).
 */
#ifndef KR_RESUME_H
#define KR_RESUME_H

#include "../machine/vmm.h"

struct kr_ucontext;
/* Whether a signal came without what its sender gave it. */
int kr_signal_is_bare(const siginfo_t *si);
/* In the host's handler, for a SIGBUS: whether it was a request; then it has been noted in t and the
 * interrupted call taken care of. */
int kr_ask_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc);

/* In the host's handler, for a signal that is not the payload's: the call that it interrupted goes on as if
 * nothing had been (above). */
void kr_ask_interrupted(struct kr_task *t, struct kr_ucontext *uc);

/* Around an execve: a request that comes while there is no handler must wait, for its signal would kill. */
void kr_ask_hold(int hold);

/* A monitor has its handler: what waited may come. first: not after an execve. */
void kr_ask_ready(struct kr_task *t, int first);

/* Notes the time, for kr_ask_adjust. At the start. */
void kr_ask_clock(void);

/* The timeout of a call that is executed again, less what it has waited; a[] as dispatch has checked it. */
void kr_ask_adjust(struct kr_task *t, u64 nr, u64 a[6]);

/* A signal of the payload's, with action flags, is about to be delivered: a call that waits to be executed
 * again ends with EINTR if the signal ends it. */
void kr_ask_signal(struct kr_task *t, u64 flags);

#endif
