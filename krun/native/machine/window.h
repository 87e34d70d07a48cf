/* SPDX-License-Identifier: Apache-2.0
 *
 * When to ask KVM to come back as soon as the guest could take an interrupt.
 *
 * On PVM every SYSCALL and every fault of the guest ends a world switch in the kernel, which then enters the
 * guest again: for a system call only to run the stub's OUT, whose #GP is the exit. With
 * kvm_run.request_interrupt_window KVM returns to the monitor instead of entering again
 * (KVM_EXIT_IRQ_WINDOW_OPEN, RIP at the stub; SFMASK leaves IF set for it). That saves a world switch for a
 * call, and costs a return to the monitor and back where the kernel would have gone on by itself: a page that
 * KVM maps at first touch, a CPUID, a host interrupt. So each thread bets: it asks while system calls are
 * what comes first, and stops asking for a number of calls, which doubles, when something else did.
 *
 * State: one kr_window a thread. Touched by that thread only. Back ends that keep IF to themselves (VMX, SVM)
 * would come back at once: they are never asked.
 */
#ifndef KR_WINDOW_H
#define KR_WINDOW_H

#include "../lib/kr_sys.h"

#define KR_WINDOW_PAUSE_MAX 64

struct kr_window {
    u16 wait;  /* calls to let pass before the next bet */
    u16 pause; /* what `wait` was set to at the last loss, halved by each win since but the first */
    u16 wins;  /* whether there was a win since the last loss */
};

/* Whether to ask at the next KVM_RUN. */
static inline int kr_window_ask(const struct kr_window *w) { return w->wait == 0; }

/* A system call came by its OUT: nobody had asked. */
static inline void kr_window_call(struct kr_window *w) {
    if (w->wait)
        w->wait--;
}

/* Asked, and a system call was what came. One win alone says nothing: where every second call comes after a
 * fault, wins and losses would take turns. */
static inline void kr_window_won(struct kr_window *w) {
    if (w->wins)
        w->pause /= 2;
    else
        w->wins = 1;
}

/* Asked, and something else came. */
static inline void kr_window_lost(struct kr_window *w) {
    w->pause = w->pause >= KR_WINDOW_PAUSE_MAX / 2 ? KR_WINDOW_PAUSE_MAX : (u16)(w->pause * 2 + 1);
    w->wait = w->pause;
    w->wins = 0;
}

#endif
