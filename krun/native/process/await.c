/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for `krun start`. No state. Called by the first thread of a container, before there are others.
 */
#include "hook.h"
#include "process.h"
#include <asm/poll.h>
#include <asm/signal.h>
#include <linux/fcntl.h>
#include <linux/signalfd.h>

/* Signals by which an operator ends a process. The kernel keeps them from a process 1 that has no handler; a blocked one waits,
 * and a signalfd has it (signal(7), sig_ignored() in kernel/signal.c). The init of runc dies of them, too. */
#define ENDING                                                                                               \
    (KR_SIGBIT(SIGHUP) | KR_SIGBIT(SIGINT) | KR_SIGBIT(SIGQUIT) | KR_SIGBIT(SIGABRT) | KR_SIGBIT(SIGTERM))

static long wait_for_byte(struct kr_task *t, int fd, int signals) {
    struct signalfd_siginfo info;
    char c;
    for (;;) {
        struct {
            s32 fd;
            short events, revents;
        } p[2] = {{signals, POLLIN, 0}, {fd, POLLIN, 0}};
        /* An error is a limit of descriptors below 2: then only the byte is waited for. */
        long n = signals < 0 ? -EINVAL : kr_sys3(__NR_poll, p, KR_COUNT(p), -1);
        if (n > 0 && p[0].revents && kr_sys3(__NR_read, signals, &info, sizeof info) == sizeof info)
            return info.ssi_signo;
        if (n > 0 && !p[1].revents)
            continue;
        if (n != -EINTR)
            n = kr_sys3(__NR_read, fd, &c, 1);
        if (n == 1)
            return 0;
        if (n == -EINTR && t->sig_caught) /* a default action, because the payload has not set another one */
            return t->info.si_signo;
        if (n != -EINTR)
            return n < 0 ? n : -EIO;
    }
}

long kr_start_wait(struct kr_task *t, int fd) {
    const kr_sigset ending = ENDING;
    kr_sigset mask = 0;
    kr_sys4(__NR_rt_sigprocmask, SIG_BLOCK, &ending, &mask, 8);
    int signals = (int)kr_sys4(__NR_signalfd4, -1, &ending, 8, SFD_CLOEXEC);
    long r = wait_for_byte(t, fd, signals);
    if (signals >= 0)
        kr_sys1(__NR_close, signals);
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    return r;
}
