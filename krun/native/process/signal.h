/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals. Dispositions and masks are mirrored to the host thread. Therefore the kernel itself does queueing,
 * default actions, stop and continue, job control, signalfd and wait statuses. The host handler (hostsig.c)
 * stores one caught signal in task->info and blocks all others until the run loop has built the payload's
 * frame (sigframe.c) and set the mask of the handler.
 */
#ifndef KR_SIGNAL_H
#define KR_SIGNAL_H

#include "../machine/vmm.h"

/* What an execve keeps of SIGSEGV and SIGBUS (signal(7)). The kernel does not know it: the monitor always catches both
 * and never blocks them. */
struct kr_fault_signals {
    kr_sigset ignored, blocked, held;
    siginfo_t info[2]; /* of those that are held: kr_task.held_info */
};

/* Fills *f from t, which is about to execve, with both blocked on the host. Whether there is anything to keep. */
int kr_signal_faults(const struct kr_task *t, struct kr_fault_signals *f);

/* Installs the handlers that the monitor needs itself (SIGSEGV, SIGBUS), and reads which signals were ignored
 * or blocked at exec. before: NULL for a first program, whose caller decides about these two as well. */
void kr_signal_init(struct kr_task *t, const struct kr_fault_signals *before);

/* Called when a call of the process may have changed RLIMIT_CORE. Without a lock. */
void kr_signal_cores(struct kr_task *t);

/* Takes a signal that was held because the payload blocked it, and that mask lets in, for a caught one. 0: there is
 * none; 1: task->info has it, or a signal that was caught before. */
int kr_signal_catch_held(struct kr_task *t, kr_sigset mask);

/* Delivers task->info, if a signal is caught. Called before the guest is entered again. */
void kr_signal_deliver(struct kr_task *t);

/* Delivers a fault of the payload: to its handler, or the process dies of the signal (force_sig_fault() in
 * the kernel). */
void kr_signal_force(struct kr_task *t, int sig, int code, u64 addr, int trapno, u64 error);

/* The flags that Linux keeps (UAPI_SA_FLAGS in the kernel's linux/signal.h). It clears all others, so that a program
 * learns which flags are supported (sigaction(2), SA_UNSUPPORTED). */
#define KR_SA_KEPT                                                                                           \
    ((u64)(u32)(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_EXPOSE_TAGBITS | SA_RESTORER | SA_ONSTACK |    \
                SA_RESTART | SA_NODEFER | SA_RESETHAND))
/* Those that the host's disposition has, too. */
#define KR_SA_HOST (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT)
/* The signals that kr_sigaction_note takes. A default action that ignores the signal discards one that waits. */
#define KR_SIGACTION_NOTED                                                                                   \
    (~(KR_SIGBIT(SIGKILL) | KR_SIGBIT(SIGSTOP) | KR_SIGBIT(SIGCHLD) | KR_SIGBIT(SIGCONT) |                   \
       KR_SIGBIT(SIGURG) | KR_SIGBIT(SIGWINCH)))

/* Bodies of the calls; sys/sig.c has the handlers. */
long kr_sigaction_set(struct kr_task *t, int sig, const struct kr_sigaction *act, struct kr_sigaction *old);
/* Puts one default action in place of another that the host's disposition cannot tell from it. Whether it was done: not
 * for another signal than KR_SIGACTION_NOTED, another handler than SIG_DFL before or after, other flags of KR_SA_HOST. */
int kr_sigaction_note(struct kr_task *t, int sig, const struct kr_sigaction *act);
void kr_sigmask_set(struct kr_task *t, kr_sigset mask);
long kr_sigreturn(struct kr_task *t);

/* For calls with a temporary mask: copies the mask in from the payload (size must be 8), removes the signals
 * that the monitor needs, and records it in task->wait_mask. *host receives the mask for the host call. The
 * caller calls kr_wait_mask_end after the host call. 0, -EINVAL or -EFAULT; 1 for a null pointer (no mask). */
long kr_wait_mask_begin(struct kr_task *t, u64 ptr, u64 size, kr_sigset *host);
void kr_wait_mask_end(struct kr_task *t);

#endif
