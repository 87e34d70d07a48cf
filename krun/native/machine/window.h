/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether to ask KVM to come back as soon as the guest could take an interrupt.
 *
 * On PVM each SYSCALL and each fault of the guest ends in the kernel, which then enters the guest again. For
 * a system call the guest then only runs the stub's OUT, whose #GP is the exit. With
 * kvm_run.request_interrupt_window KVM returns to the monitor instead of entering the guest again
 * (KVM_EXIT_IRQ_WINDOW_OPEN, RIP at the stub). SFMASK leaves IF set for that.
 *
 *   gain   one world switch for each system call
 *   cost   a return to the monitor and back, where the kernel would have gone on by itself: a page that KVM
 *          maps at first touch, a CPUID, a host interrupt
 *
 * So each thread bets. It asks while system calls come first. When something else comes first, it does not
 * ask for a number of calls; each loss doubles that number.
 *
 * With the window KVM returns at LSTAR, before code of the guest's (guest/engine.S) can complete a call. So a thread
 * asks only while few of its calls are such: a call costs about 26 us with the window, about 43 us without it, and
 * about 2 us if it is completed. That is even at 40 %.
 *
 * State: one kr_window for each thread, which only that thread uses. On VMX and SVM KVM would come back at
 * once, because the guest has IF set all the time: there the monitor never asks.
 */
#ifndef KR_WINDOW_H
#define KR_WINDOW_H

#include "../lib/kr_sys.h"

#define KR_WINDOW_PAUSE_MAX 64
#define KR_WINDOW_ALL 4096u
#define KR_WINDOW_ENOUGH (KR_WINDOW_ALL * 2 / 5)
#define KR_WINDOW_MEMORY 32u /* so many calls in a row change `share` from one end to the other */

struct kr_window {
    u16 wait;  /* calls to let pass before the next bet */
    u16 pause; /* what `wait` was set to at the last loss; halved by each win since, except the first */
    u16 wins;  /* whether there was a win since the last loss */
    u16 share; /* of its calls, how many the guest's code completes or could complete: of KR_WINDOW_ALL, an average
                * over some calls; 0: calls are not completed */
};

/* Whether so many calls can be completed that the thread does not ask. */
static inline int kr_window_closed(const struct kr_window *w) { return w->share >= KR_WINDOW_ENOUGH; }

/* Whether to ask at the next KVM_RUN. */
static inline int kr_window_ask(const struct kr_window *w) { return w->wait == 0 && !kr_window_closed(w); }

/* A call that is completed or could have been (own: 1), or another one (0). */
static inline void kr_window_count(struct kr_window *w, int own) {
    u32 share = w->share;
    w->share = (u16)(own ? share + ((KR_WINDOW_ALL - share) >> 3) : share - (share >> 3));
}

/* The guest's code has completed that many calls since the last exit. */
static inline void kr_window_completed(struct kr_window *w, u32 completed) {
    for (u32 i = 0; i < completed && i < KR_WINDOW_MEMORY; i++)
        kr_window_count(w, 1);
}

/* A system call came by its OUT, because the thread had not asked. */
static inline void kr_window_call(struct kr_window *w) {
    if (w->wait)
        w->wait--;
}

/* The thread asked, and a system call came. One win alone says nothing: if a fault comes before every second
 * call, wins and losses take turns. */
static inline void kr_window_won(struct kr_window *w) {
    if (w->wins)
        w->pause /= 2;
    else
        w->wins = 1;
}

/* The thread asked, and something else came. */
static inline void kr_window_lost(struct kr_window *w) {
    w->pause = w->pause >= KR_WINDOW_PAUSE_MAX / 2 ? KR_WINDOW_PAUSE_MAX : (u16)(w->pause * 2 + 1);
    w->wait = w->pause;
    w->wins = 0;
}

#endif
