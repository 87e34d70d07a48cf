/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal calls: the arguments are checked here, process/signal.c does the work. The kernel sends signals:
 * kill(2) and relatives are forwarded. */
#include "sys.h"
#include "../process/hostsig.h"
#include "../process/sigframe.h"
#include "../process/signal.h"
#include "../lib/kr_linux.h"

kr_sys_fn sys_rt_sigaction, sys_rt_sigprocmask, sys_rt_sigreturn, sys_rt_sigpending, sys_rt_sigtimedwait,
    sys_rt_sigqueueinfo, sys_rt_tgsigqueueinfo, sys_rt_sigsuspend, sys_sigaltstack, sys_kill, sys_tkill,
    sys_tgkill;

long sys_rt_sigaction(struct kr_task *t, const u64 a[6]) {
    struct kr_sigaction act, old;
    if (a[3] != 8)
        return -EINVAL;
    if (a[1] && kr_copy_in(&act, a[1], sizeof act) < 0)
        return -EFAULT;
    long r = kr_sigaction_set(t, (int)a[0], a[1] ? &act : NULL, &old);
    if (!r && a[2] && kr_copy_out(a[2], &old, sizeof old) < 0)
        return -EFAULT;
    return r;
}

long sys_rt_sigprocmask(struct kr_task *t, const u64 a[6]) {
    kr_sigset set, old = t->sigmask;
    if (a[3] != 8)
        return -EINVAL;
    if (a[1]) {
        if (kr_copy_in(&set, a[1], 8) < 0)
            return -EFAULT;
        switch ((int)a[0]) {
        case SIG_BLOCK:
            set = old | set;
            break;
        case SIG_UNBLOCK:
            set = old & ~set;
            break;
        case SIG_SETMASK:
            break;
        default:
            return -EINVAL;
        }
        kr_sigmask_set(t, set);
    }
    return a[2] ? kr_copy_out(a[2], &old, 8) : 0;
}

long sys_rt_sigreturn(struct kr_task *t, const u64 a[6]) {
    (void)a;
    return kr_sigreturn(t);
}

long sys_rt_sigpending(struct kr_task *t, const u64 a[6]) {
    kr_sigset set = 0;
    if (a[1] > 8)
        return -EINVAL;
    long r = kr_sys2(__NR_rt_sigpending, &set, 8);
    if (r < 0)
        return r;
    set = (set | t->held) & t->sigmask;
    return kr_copy_out(a[0], &set, a[1]);
}

long sys_rt_sigtimedwait(struct kr_task *t, const u64 a[6]) {
    kr_sigset set;
    if (a[3] != 8)
        return -EINVAL;
    if (kr_copy_in(&set, a[0], 8) < 0)
        return -EFAULT;
    kr_sigset here = t->held & set;
    if (here) { /* SIGSEGV or SIGBUS of another process: never pending on the host */
        int sig = here & KR_SIGBIT(SIGBUS) ? SIGBUS : SIGSEGV;
        if (a[1] && kr_copy_out(a[1], &t->held_info[sig == SIGBUS], sizeof(siginfo_t)) < 0)
            return -EFAULT;
        t->held &= ~KR_SIGBIT(sig);
        return sig;
    }
    set &= ~KR_HOST_OPEN;
    return kr_call_intr(__NR_rt_sigtimedwait, (u64)&set, a[1], a[2], 8, 0, 0);
}

long sys_rt_sigsuspend(struct kr_task *t, const u64 a[6]) {
    kr_sigset host;
    if (!a[0])
        return -EFAULT;
    long r = kr_wait_mask_begin(t, a[0], a[1], &host);
    if (r < 0)
        return r;
    if (kr_signal_catch_held(t, t->wait_mask.mask))
        return -EINTR;
    r = kr_call_intr(__NR_rt_sigsuspend, (u64)&host, 8, 0, 0, 0, 0);
    kr_wait_mask_end(t);
    return r;
}

long sys_sigaltstack(struct kr_task *t, const u64 a[6]) {
    u64 sp = kr_regs(t)->rsp;
    struct kr_altstack new, old = t->altstack;
    old.flags = (t->altstack.flags & (s32)SS_AUTODISARM) | kr_altstack_flags(t, sp);
    old.pad = 0;
    if (a[0]) {
        if (kr_copy_in(&new, a[0], sizeof new) < 0)
            return -EFAULT;
        if (kr_altstack_flags(t, sp) == SS_ONSTACK)
            return -EPERM;
        u32 mode = (u32) new.flags & ~SS_AUTODISARM;
        if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
            return -EINVAL;
        if (mode == SS_DISABLE) {
            new.size = 0;
            new.sp = 0;
        } else if (new.size < 2048) { /* MINSIGSTKSZ */
            return -ENOMEM;
        }
        t->altstack = new;
        t->altstack.pad = 0;
    }
    return a[1] ? kr_copy_out(a[1], &old, sizeof old) : 0;
}

long sys_rt_sigqueueinfo(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_rt_sigqueueinfo, a);
}

long sys_rt_tgsigqueueinfo(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_rt_tgsigqueueinfo, a);
}

long sys_kill(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_kill, a);
}

long sys_tkill(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_tkill, a);
}

long sys_tgkill(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_tgkill, a);
}
