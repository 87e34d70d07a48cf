/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's signal actions, masks and delivery. signal.h explains the design; hostsig.c catches signals;
 * sigframe.c builds the frame.
 */
#include "signal.h"
#include "above.h"
#include "resume.h"
#include "board.h"
#include "core.h"
#include "observe.h"
#include "hostsig.h"
#include "sigframe.h"
#include "../machine/usercopy.h"
#include <linux/signal.h>
#include <asm/siginfo.h>
#include <linux/audit.h>
#include <linux/resource.h>

#define UNCATCHABLE (KR_SIGBIT(SIGKILL) | KR_SIGBIT(SIGSTOP))
#define FAULTS_OURS(sig) ((sig) == SIGSEGV || (sig) == SIGBUS)

kr_sigset kr_host_mask(kr_sigset mask) {
    kr_sigset old = 0;
    mask &= ~KR_HOST_OPEN;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, &old, 8);
    return old;
}

/* No handler runs on this thread from here on, not even that of SIGSEGV and SIGBUS: until the next change of the
 * mask the monitor touches no guest memory. */
static void block_all(void) {
    kr_sigset all = ~0ULL;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
}

/* A signal may be caught between a look at sig_caught and the call that sets the mask. The call would then unblock
 * all signals while one waits in t->info, and the next one would take its place. kr_call_intr does not begin the call
 * once a signal is caught. */
void kr_host_mask_back(struct kr_task *t, kr_sigset mask) {
    mask &= ~KR_HOST_OPEN;
    if (kr_call_intr(__NR_rt_sigprocmask, SIG_SETMASK, (u64)&mask, 0, 8, 0, 0) != -KR_ERESTART)
        return;
    block_all(); /* a signal is caught, or the thread is asked, which is no reason against the mask */
    kr_host_mask(t->sig_caught ? ~0ULL : mask);
}

/* Sets the host's disposition of sig for the payload's action a. If RLIMIT_CORE asks for core files
 * (proc->cores), signals whose default action is a core are caught, so that the monitor writes the payload's
 * core. */
static long host_action(const struct kr_proc *p, int sig, const struct kr_sigaction *a) {
    struct kr_sigaction h = {0};
    h.flags = a->flags & KR_SA_HOST;
    int dumps = p->cores && a->handler == (u64)SIG_DFL && (KR_SIGBIT(sig) & KR_CORE_SIGNALS);
    if (FAULTS_OURS(sig) || dumps || (a->handler != (u64)SIG_DFL && a->handler != (u64)SIG_IGN)) {
        h.handler = (u64)kr_host_handler;
        h.restorer = (u64)kr_host_restorer;
        h.flags |= SA_SIGINFO | SA_RESTORER;
        h.mask = KR_HOST_BLOCK_ALL;
    } else {
        h.handler = a->handler;
    }
    return kr_sys4(__NR_rt_sigaction, sig, &h, 0, 8);
}

int kr_signal_faults(const struct kr_task *t, struct kr_fault_signals *f) {
    memset(f, 0, sizeof *f);
    for (int sig = 1; sig <= SIGSEGV; sig++)
        if (FAULTS_OURS(sig) && t->proc->action[sig].handler == (u64)SIG_IGN)
            f->ignored |= KR_SIGBIT(sig);
    f->blocked = t->sigmask & KR_HOST_OPEN;
    f->held = t->held;
    memcpy(f->info, t->held_info, sizeof f->info);
    return f->ignored || f->blocked || f->held;
}

void kr_signal_init(struct kr_task *t, const struct kr_fault_signals *before) {
    for (int sig = 1; sig <= KR_NSIG; sig++) {
        struct kr_sigaction old = {0};
        if (kr_sys4(__NR_rt_sigaction, sig, 0, &old, 8) == 0 && old.handler == (u64)SIG_IGN)
            t->proc->action[sig].handler = (u64)SIG_IGN;
        if (before && before->ignored & KR_SIGBIT(sig))
            t->proc->action[sig].handler = (u64)SIG_IGN;
    }
    kr_signal_cores(t);
    host_action(t->proc, SIGSEGV, &t->proc->action[SIGSEGV]);
    host_action(t->proc, SIGBUS, &t->proc->action[SIGBUS]);
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, 0, &t->sigmask, 8);
    if (before) { /* both are blocked on the host until the handlers are there (kr_faults_hold) */
        t->sigmask = (t->sigmask & ~KR_HOST_OPEN) | before->blocked;
        t->held = before->held;
        memcpy(t->held_info, before->info, sizeof t->held_info);
    }
    t->altstack.flags = SS_DISABLE;
}

void kr_signal_cores(struct kr_task *t) {
    struct kr_proc *p = t->proc;
    u64 lim[2] = {0, 0};
    kr_lock(&p->sig_lock);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_CORE, 0, lim);
    u32 cores =
        lim[0] >= KR_CORE_MIN && kr_sys0(__NR_getpid) != 1; /* the kernel drops such a signal for pid 1 */
    u32 changes = cores != p->cores;
    p->cores = cores;
    for (int sig = 1; changes && sig <= 31; sig++)
        if ((KR_SIGBIT(sig) & KR_CORE_SIGNALS) && p->action[sig].handler == (u64)SIG_DFL)
            host_action(p, sig, &p->action[sig]);
    kr_unlock(&p->sig_lock);
}

long kr_sigaction_set(struct kr_task *t, int sig, const struct kr_sigaction *act, struct kr_sigaction *old) {
    struct kr_proc *p = t->proc;
    if (sig < 1 || sig > KR_NSIG || (act && (UNCATCHABLE & KR_SIGBIT(sig))))
        return -EINVAL;
    long r = 0;
    kr_lock(&p->sig_lock);
    if (old)
        *old = p->action[sig];
    if (act) {
        struct kr_sigaction a = *act;
        a.mask &= ~UNCATCHABLE;
        a.flags &= KR_SA_KEPT;
        r = host_action(p, sig, &a);
        if (!r) {
            p->action[sig] = a;
            kr_local_action(t, sig);
            if (a.handler == (u64)SIG_IGN) /* one that waits goes (sigaction(2)) */
                t->held &= ~KR_SIGBIT(sig);
            if (KR_SIGBIT(sig) & KR_CORE_SIGNALS) /* of other signals the kernel shows the same */
                kr_board_update(t);
        }
    }
    kr_unlock(&p->sig_lock);
    return r;
}

int kr_sigaction_note(struct kr_task *t, int sig, const struct kr_sigaction *act) {
    struct kr_proc *p = t->proc;
    if (sig < 1 || sig > KR_NSIG || !(KR_SIGACTION_NOTED & KR_SIGBIT(sig)) || act->handler != (u64)SIG_DFL)
        return 0;
    kr_lock(&p->sig_lock);
    struct kr_sigaction *a = &p->action[sig];
    int done = a->handler == (u64)SIG_DFL && !((a->flags ^ act->flags) & KR_SA_HOST);
    if (done) {
        a->flags = act->flags & KR_SA_KEPT;
        a->restorer = act->restorer;
        a->mask = act->mask & ~UNCATCHABLE;
        kr_local_action(t, sig);
    }
    kr_unlock(&p->sig_lock);
    return done;
}

void kr_sigmask_set(struct kr_task *t, kr_sigset mask) {
    t->sigmask = mask & ~UNCATCHABLE;
    kr_host_mask_back(t, t->sigmask);
}

long kr_wait_mask_begin(struct kr_task *t, u64 ptr, u64 size, kr_sigset *host) {
    if (!ptr)
        return 1;
    if (size != 8)
        return -EINVAL;
    kr_sigset m;
    if (kr_copy_in(&m, ptr, 8) < 0)
        return -EFAULT;
    m &= ~UNCATCHABLE;
    t->wait_mask.mask = m;
    t->wait_mask.active = 1;
    *host = m & ~KR_HOST_OPEN;
    return 0;
}

void kr_wait_mask_end(struct kr_task *t) {
    if (!t->sig_caught) /* kr_signal_deliver ends it after a caught signal, because the handler's mask is built from it */
        t->wait_mask.active = 0;
}

/* Handles a frame that could not be built: the payload gets SIGSEGV, or dies of it without a handler
 * (signal_setup_done() and force_sigsegv() in the kernel). The mask is unchanged. */
static void no_frame(struct kr_task *t, int sig) {
    if (sig == SIGSEGV)
        kr_die_signal(t, SIGSEGV);
    kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, (int)t->trapno, t->error);
}

/* Builds the frame for one signal under its action and sets the mask that holds in the handler. */
static void deliver(struct kr_task *t, const siginfo_t *si, const struct kr_sigaction *act) {
    int sig = si->si_signo;
    kr_observe_signal(t, si);
    if (kr_sigframe_push(t, si, act, t->sigmask) < 0) {
        no_frame(t, sig);
        return;
    }
    kr_sigset base = t->wait_mask.active ? t->wait_mask.mask : t->sigmask;
    t->wait_mask.active = 0;
    t->sigmask = (base | act->mask | (act->flags & SA_NODEFER ? 0 : KR_SIGBIT(sig))) & ~UNCATCHABLE;
    kr_host_mask_back(t, t->sigmask);
}

/* The action to run for sig, taking SA_RESETHAND into account. */
static struct kr_sigaction take_action(struct kr_task *t, int sig) {
    struct kr_proc *p = t->proc;
    kr_lock(&p->sig_lock);
    struct kr_sigaction a = p->action[sig];
    if ((a.flags & SA_RESETHAND) && a.handler != (u64)SIG_IGN && a.handler != (u64)SIG_DFL) {
        p->action[sig].handler = (u64)SIG_DFL;
        host_action(p, sig, &p->action[sig]);
        kr_local_action(t, sig);
    }
    kr_unlock(&p->sig_lock);
    return a;
}

/* Whether the kernel drops a signal that was sent: one with the default action to the first process of a pid namespace
 * (SIGNAL_UNKILLABLE in get_signal()). Only SIGSEGV and SIGBUS are caught there without an action of the payload's. */
static int dropped(int sig, const struct kr_sigaction *act) {
    return FAULTS_OURS(sig) && act->handler == (u64)SIG_DFL && kr_sys0(__NR_getpid) == 1;
}

int kr_signal_catch_held(struct kr_task *t, kr_sigset mask) {
    if (!(t->held & ~mask))
        return 0;
    block_all();
    kr_sigset ready = t->held & ~mask;
    if (!t->sig_caught && ready) {                              /* else another one came first */
        int sig = ready & KR_SIGBIT(SIGBUS) ? SIGBUS : SIGSEGV; /* the lower number first (next_signal()) */
        t->held &= ~KR_SIGBIT(sig);
        t->info = t->held_info[sig == SIGBUS];
        t->sig_caught = 1;
    }
    kr_host_mask(~0ULL);
    return 1;
}

void kr_signal_deliver(struct kr_task *t) {
    for (;;) {
        if (!t->sig_caught && !kr_signal_catch_held(t, t->sigmask))
            return;
        siginfo_t si = t->info;
        int sig = si.si_signo;
        struct kr_sigaction act = take_action(t, sig);
        t->sig_caught = 0;
        if (act.handler != (u64)SIG_IGN)
            kr_ask_signal(t, act.flags);
        if (act.handler == (u64)SIG_IGN || dropped(sig, &act)) {
            t->wait_mask.active = 0;
            kr_host_mask_back(t, t->sigmask);
        } else if (act.handler == (u64)SIG_DFL) {
            /* The payload changed the action after the signal was caught. The kernel applies the default
             * action. */
            if (FAULTS_OURS(sig) || (t->proc->cores && (KR_SIGBIT(sig) & KR_CORE_SIGNALS))) {
                kr_observe_signal(t, &si);
                t->dying_of = &si;
                kr_die_signal(t, sig);
            }
            t->wait_mask.active = 0;
            if (kr_sys4(__NR_rt_tgsigqueueinfo, kr_sys0(__NR_getpid), t->tid, sig, &si) < 0)
                kr_sys3(__NR_tgkill, kr_sys0(__NR_getpid), t->tid, sig);
            kr_host_mask_back(t, t->sigmask);
        } else {
            deliver(t, &si, &act);
        }
    }
}

void kr_signal_force(struct kr_task *t, int sig, int code, u64 addr, int trapno, u64 error) {
    siginfo_t si;
    memset(&si, 0, sizeof si);
    si.si_signo = sig;
    si.si_code = code;
    si.si_addr = (void *)addr;
    if (sig ==
        SIGSYS) { /* _sigsys has the call's address, number and architecture; si_errno has the filter's data */
        si.si_errno = (int)error;
        si.si_syscall = trapno;
        si.si_arch = AUDIT_ARCH_X86_64;
    }
    t->trapno = (u64)trapno;
    t->error = error;
    struct kr_sigaction act = take_action(t, sig);
    if ((t->sigmask & KR_SIGBIT(sig)) || act.handler == (u64)SIG_IGN || act.handler == (u64)SIG_DFL) {
        kr_observe_signal(t, &si);
        t->dying_of = &si;
        kr_die_signal(t, sig);
    }
    u32 caught = t->sig_caught;
    if (caught) { /* a caught asynchronous signal waits: its frame goes on top, and its change of the mask must be kept */
        kr_sigset base = t->sigmask;
        kr_observe_signal(t, &si);
        if (kr_sigframe_push(t, &si, &act, base) < 0) {
            if (sig == SIGSEGV)
                kr_die_signal(t, SIGSEGV);
            kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, trapno, error);
            return;
        }
        t->sigmask = (base | act.mask | (act.flags & SA_NODEFER ? 0 : KR_SIGBIT(sig))) & ~UNCATCHABLE;
        return;
    }
    deliver(t, &si, &act);
}

long kr_sigreturn(struct kr_task *t) {
    kr_sigset mask;
    t->regs_replaced = 1;
    if (kr_sigframe_pop(t, &mask) < 0) {
        kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, 0, 0);
        return 0;
    }
    kr_sigmask_set(t, mask);
    return 0;
}
