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
 * So each thread bets. What comes first depends on what the program has done last: after openat a program mostly makes
 * the next call, after brk it touches the new memory. So each number of a call has a row with what came first after that
 * call before. After a loss the row does not ask for a number of calls; each further loss doubles that number. All threads of an address space
 * share the rows, a child of fork gets a copy. A new program begins with what programs do at their start (kr_window_begin).
 *
 * With the window KVM returns at LSTAR, before code of the guest's (guest/engine.S) can complete a call. So a thread
 * asks only while few of its calls are such: a call costs about 26 us with the window, about 43 us without it, and
 * about 2 us if it is completed. That is even at 40 %.
 *
 * State: one kr_window for each thread, which only that thread uses, and the rows in kr_mm, which all of its threads read and write
 * without a lock: each byte has a value that some thread has given it, and any such value is a bet. On VMX and SVM KVM would come back at
 * once, because the guest has IF set all the time: there the monitor never asks.
 */
#ifndef KR_WINDOW_H
#define KR_WINDOW_H

#include "../lib/kr_sys.h"
#include <asm/unistd.h>

#define KR_WINDOW_PAUSE_MAX 63
#define KR_WINDOW_PAUSE_FIRST 7 /* of the rows that a new program does not bet on */
#define KR_WINDOW_ROWS 512
#define KR_WINDOW_WON 0x80
#define KR_WINDOW_ALL 4096u
#define KR_WINDOW_ENOUGH (KR_WINDOW_ALL * 2 / 5)
#define KR_WINDOW_MEMORY 32u /* so many calls in a row change `share` from one end to the other */

struct kr_window_row {
    u8 wait; /* calls to let pass before the next bet */
    u8 pause; /* what `wait` was set to at the last loss; halved by each win since, except the first (KR_WINDOW_WON) */
};

struct kr_window_rows {
    struct kr_window_row row[KR_WINDOW_ROWS];
};

struct kr_window {
    u16 last; /* the row of the thread's last call; 0: it has made none */
    u16 share; /* of its calls, how many the guest's code completes or could complete: of KR_WINDOW_ALL, an average
                * over some calls; 0: calls are not completed */
};

static inline u16 kr_window_row(u64 nr) {
    return (u16)(nr < KR_WINDOW_ROWS - 1 ? nr + 1 : KR_WINDOW_ROWS - 1);
}

/* Whether programs mostly touch memory for the first time, or use CPUID, after a call with that number: counted in starts of
 * bash, gcc, git, Go, perl and python (docs/performance.md). */
static inline int kr_window_seldom(u32 nr) {
    switch (nr) {
    case __NR_close:
    case __NR_mprotect:
    case __NR_munmap:
    case __NR_brk:
    case __NR_rt_sigreturn:
    case __NR_access:
    case __NR_clone:
    case __NR_fork:
    case __NR_set_robust_list:
    case __NR_prlimit64:
    case __NR_getrandom:
    case __NR_rseq:
        return 1;
    default:
        return 0;
    }
}

/* A new program. */
static inline void kr_window_begin(struct kr_window_rows *rows) {
    const struct kr_window_row first = {KR_WINDOW_PAUSE_FIRST, KR_WINDOW_PAUSE_FIRST};
    rows->row[0] = first;
    for (u32 nr = 0; nr < KR_WINDOW_ROWS - 1; nr++)
        if (kr_window_seldom(nr))
            rows->row[kr_window_row(nr)] = first;
}

/* Whether so many calls can be completed that the thread does not ask. */
static inline int kr_window_closed(const struct kr_window *w) { return w->share >= KR_WINDOW_ENOUGH; }

/* Whether to ask at the next KVM_RUN. */
static inline int kr_window_ask(const struct kr_window *w, const struct kr_window_rows *rows) {
    return !__atomic_load_n(&rows->row[w->last].wait, __ATOMIC_RELAXED) && !kr_window_closed(w);
}

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
static inline void kr_window_call(const struct kr_window *w, struct kr_window_rows *rows) {
    u8 *wait = &rows->row[w->last].wait, n = __atomic_load_n(wait, __ATOMIC_RELAXED);
    if (n)
        __atomic_store_n(wait, (u8)(n - 1), __ATOMIC_RELAXED);
}

/* The thread asked, and a system call came. One win alone says nothing: if a fault comes before every second
 * call, wins and losses take turns. */
static inline void kr_window_won(const struct kr_window *w, struct kr_window_rows *rows) {
    u8 *pause = &rows->row[w->last].pause, was = __atomic_load_n(pause, __ATOMIC_RELAXED);
    u8 now = was & KR_WINDOW_WON ? (u8)(KR_WINDOW_WON | (was & KR_WINDOW_PAUSE_MAX) / 2)
                                 : (u8)(was | KR_WINDOW_WON);
    if (now != was) /* the threads' processors share the row */
        __atomic_store_n(pause, now, __ATOMIC_RELAXED);
}

/* The thread asked, and something else came. */
static inline void kr_window_lost(const struct kr_window *w, struct kr_window_rows *rows) {
    struct kr_window_row *row = &rows->row[w->last];
    u8 pause = __atomic_load_n(&row->pause, __ATOMIC_RELAXED) & KR_WINDOW_PAUSE_MAX;
    pause = (u8)((pause * 2 + 1) & KR_WINDOW_PAUSE_MAX); /* of the form 2^n - 1 */
    __atomic_store_n(&row->pause, pause, __ATOMIC_RELAXED);
    __atomic_store_n(&row->wait, pause, __ATOMIC_RELAXED);
}

/* The thread's call nr has been served. */
static inline void kr_window_served(struct kr_window *w, u64 nr) { w->last = kr_window_row(nr); }

#endif
