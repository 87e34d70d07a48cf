/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuing a call unchanged after an interruption that is not the payload's: another monitor's question
 * (view/ask.h), or a stop of all threads (quiesce.h).
 */
#ifndef KR_RESUME_H
#define KR_RESUME_H

#include "../machine/vmm.h"

struct kr_ucontext;
/* Whether a signal arrived without the contents that its sender gave (siginfo_t). */
int kr_signal_is_bare(const siginfo_t *si);
/* The si_code of a question's signal (view/ask.h), whose si_pid and si_uid carry the question. Between two user namespaces the
 * kernel translates si_uid of most codes (has_si_pid_and_uid() in kernel/signal.c), and the asked process would take the signal for
 * its payload's. It leaves that of SI_TIMER as it is. */
#define KR_ASK_CODE SI_TIMER
/* Called by the host signal handler for a SIGBUS. Returns whether the signal was a request of a monitor. If
 * so, the request is recorded in t and the interrupted call is prepared to continue. */
int kr_ask_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc);

/* Called by the host signal handler for a signal that is not the payload's: prepares the interrupted call to
 * be executed again. */
void kr_ask_interrupted(struct kr_task *t, struct kr_ucontext *uc);

/* Called with 1 before and with 0 after an execve, and with 0 when the monitor has installed its handlers: SIGSEGV and
 * SIGBUS wait. While the process has no handler, the default action would kill it, though the payload ignores the
 * signal or blocks it; SIGBUS may be a request of another monitor. */
void kr_faults_hold(int hold);

/* Records the time for kr_ask_adjust. Called once at start. */
void kr_ask_clock(void);

/* Reduces the timeout of a call that is executed again by the time that it has waited. a[]: the arguments,
 * checked by dispatch. */
void kr_ask_adjust(struct kr_task *t, u64 nr, u64 a[6]);

/* Called before a signal with the given action flags is delivered to the payload: a call that is to be
 * executed again returns EINTR instead, if the signal ends it. */
void kr_ask_signal(struct kr_task *t, u64 flags);

#endif
