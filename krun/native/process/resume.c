/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuing a call after an interruption that is not the payload's: see resume.h.
 *
 * State: the start of a clock, set once; in each task the request and the interrupted call, which only the
 * task's own thread and its host signal handler touch.
 */
#include "resume.h"
#include "board.h"
#include "domain.h"
#include "hostsig.h"
#include "sigframe.h"
#include "../machine/site.h"
#include "../machine/usercopy.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/futex.h>
#include <linux/time.h>

/* ---- Being interrupted ---- */

extern const char kr_intr_begin[], kr_intr_syscall[], kr_intr_restart[];

/* A clock that is read without a system call (the TSC), and its value at an earlier time. Calls with a
 * timeout record their start by it (sys/table.c). */
static u64 base_ticks, base_ns;

static u64 ticks_to_ns(u64 ticks) {
    u64 now = kr_now(), t1 = kr_ticks(), span = t1 - base_ticks;
    if (!base_ns || now <= base_ns || span < 1024)
        return 0;
    u64 rate = ((now - base_ns) << 10) / (span >> 10); /* ns per 2^20 ticks */
    return (ticks >> 10) * rate >> 10;
}

void kr_ask_clock(void) {
    base_ns = kr_now();
    base_ticks = kr_ticks();
}

void kr_faults_hold(int hold) {
    kr_sigset faults = KR_HOST_OPEN;
    kr_sys4(__NR_rt_sigprocmask, hold ? SIG_BLOCK : SIG_UNBLOCK, &faults, 0, 8);
}

void kr_ask_interrupted(struct kr_task *t, struct kr_ucontext *uc) {
    u64 rip = uc->mc.rip;
    if (t->sig_caught) {
        /* A signal for the payload came first, and its context waits below this one; or it was caught after
         * the kernel had taken this one from the queue. In both cases no further signal may be caught until
         * the first one is delivered. */
        uc->mask = KR_HOST_BLOCK_ALL;
        return;
    }
    int in_call = t->nr != ~0ULL, ended = 0;
    if (rip >= (u64)kr_intr_begin && rip <= (u64)kr_intr_syscall) {
        ended = rip == (u64)kr_intr_syscall;
        uc->mc.rip = (u64)kr_intr_restart;
    } else if (rip == (u64)kr_intr_syscall + 2 && uc->mc.rax == (u64)-EINTR && in_call) {
        ended = 1;
        uc->mc.rax = (u64)-KR_ERESTART;
    }
    if (ended && in_call) {
        if (!t->resumed)
            t->waited = 0;
        if (t->began)
            t->waited += ticks_to_ns(kr_ticks() - t->began);
        t->resumed = 1;
        t->resume_rip = kr_regs(t)->rip - 2;
    }
}

/* Whether a signal came without its contents. The kernel drops the contents where the user has reached
 * RLIMIT_SIGPENDING, which counts all processes of the user (__send_signal_locked() in kernel/signal.c). In a
 * process that has been asked such a signal is taken for a question, and is not answered: otherwise a user
 * that fills the limit could make another process's question end the process that is asked. The price is that
 * a SIGBUS from root of the host, which looks the same, is lost. */
int kr_signal_is_bare(const siginfo_t *si) { return si->si_code == SI_USER && !si->si_pid && !si->si_uid; }

int kr_ask_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc) {
    if (kr_board_cookie() && kr_signal_is_bare(si) && kr_board_asked(t)) {
        if (t->runs)
            kr_ask_interrupted(t, uc);
        return 1;
    }
    if (si->si_code != KR_ASK_CODE || !kr_board_cookie() ||
        (u64)si->si_value.sival_ptr !=
            kr_domain_tag((u64)(u32)si->si_pid << 32 | si->si_uid, (u64)si->si_utime, (u64)si->si_stime))
        return 0;
    t->ask_request = (u32)si->si_pid;
    t->ask_n = si->si_uid;
    t->ask_domain = (u64)si->si_utime;
    t->ask_who = (u64)si->si_stime;
    t->ask_count++;
    if (!t->runs) { /* the thread is starting: no call may be given up, and there is nothing to answer yet */
        t->ask_early = 1;
        return 1;
    }
    __atomic_or_fetch(&t->asked, KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    t->was_asked = 1;
    kr_ask_interrupted(t, uc);
    return 1;
}

/* Calls that a handled signal ends with EINTR even with SA_RESTART (signal(7)). */
static int always_ends(const struct kvm_regs *r) {
    switch (r->rax) {
    case __NR_futex: /* with a timeout */
        return (r->rsi & (u64)FUTEX_CMD_MASK) == FUTEX_WAIT && r->r10;
    case __NR_pause:
    case __NR_rt_sigsuspend:
    case __NR_rt_sigtimedwait:
    case __NR_nanosleep:
    case __NR_clock_nanosleep:
    case __NR_poll:
    case __NR_ppoll:
    case __NR_select:
    case __NR_pselect6:
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
    case __NR_semop:
    case __NR_semtimedop:
    case __NR_msgsnd:
    case __NR_msgrcv:
    case __NR_io_getevents:
        return 1;
    }
    return 0;
}

void kr_ask_signal(struct kr_task *t, u64 flags) {
    struct kvm_regs *r = kr_regs(t);
    u8 insn[2];
    if (!t->resumed)
        return;
    t->resumed = 0;
    t->notified = 0; /* if the payload makes the call again, the agent hears of it again */
    /* Is the next instruction still the SYSCALL that was to be executed again? */
    if (t->nr != ~0ULL || kr_copy_in(insn, r->rip, 2) < 0)
        return;
    kr_sites_original(t->mm, r->rip, insn, 2);
    if (insn[0] != 0x0f || insn[1] != 0x05 || r->rip != t->resume_rip)
        return;
    if ((flags & SA_RESTART) && !always_ends(r))
        return;
    r->rip += 2;
    r->rax = (u64)-EINTR;
}

static s64 *left(struct kr_task *t, u64 ptr) {
    s64 ts[2];
    if (kr_copy_in(ts, ptr, sizeof ts) < 0 || ts[0] < 0 || ts[1] < 0 || ts[1] > 999999999)
        return NULL; /* the kernel returns an error for it */
    if (ts[0] < (s64)(1ULL << 32)) {
        s64 ns = ts[0] * 1000000000L + ts[1];
        ns = ns > (s64)t->waited ? ns - (s64)t->waited : 0;
        ts[0] = ns / 1000000000L;
        ts[1] = ns % 1000000000L;
    }
    memcpy(t->left, ts, sizeof ts);
    return t->left;
}

void kr_ask_adjust(struct kr_task *t, u64 nr, u64 a[6]) {
    u32 i;
    switch (nr) {
    case __NR_poll:
        i = 2;
        goto ms;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
        i = 3;
    ms:
        if ((s32)a[i] > 0) {
            u64 ns = (u64)(u32)a[i] * 1000000;
            a[i] = ns > t->waited ? (ns - t->waited + 999999) / 1000000 : 0;
        }
        return;
    case __NR_nanosleep:
        if (a[1] == a[0]) /* the kernel has written the rest of the time there */
            return;
        i = 0;
        break;
    case __NR_clock_nanosleep:
        if ((a[1] & TIMER_ABSTIME) || a[3] == a[2])
            return;
        i = 2;
        break;
    case __NR_rt_sigtimedwait:
        i = 2;
        break;
    case __NR_futex:
        if ((a[1] & (u64)FUTEX_CMD_MASK) != FUTEX_WAIT)
            return;
        i = 3;
        break;
    case __NR_semtimedop:
    case __NR_epoll_pwait2:
        i = 3;
        break;
    default:
        return;
    }
    if (a[i] && left(t, a[i]))
        a[i] = (u64)t->left;
}
