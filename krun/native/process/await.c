/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for `krun start`. No state. Called by the first thread of a container, before there are others.
 */
#include "hook.h"
#include "hostsig.h"
#include "process.h"
#include <asm/poll.h>
#include <asm/signal.h>

/* Signals by which an operator ends a process. The kernel keeps them from a process 1 that has no handler (signal(7)), so they are
 * caught while the container waits. The init of runc dies of them, too. */
static const u8 ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM};

/* Reads the byte. Signals of `mask` are delivered in ppoll(2) only: one that comes before is not lost. 0 or -errno; -EINTR: a signal
 * was caught. */
static long wait_for_byte(struct kr_task *t, int fd, kr_sigset mask) {
    char c;
    for (;;) {
        struct {
            s32 fd;
            short events, revents;
        } p = {fd, POLLIN, 0};
        long n = kr_sys5(__NR_ppoll, &p, 1, 0, &mask, 8);
        if (t->sig_caught)
            return -EINTR;
        if (n == -EINTR)
            continue;
        n = kr_sys3(__NR_read, fd, &c, 1); /* after an error, too: RLIMIT_NOFILE of 0 */
        if (n == 1)
            return 0;
        if (n != -EINTR)
            return n < 0 ? n : -EIO;
    }
}

long kr_start_wait(struct kr_task *t, int fd) {
    const struct kr_sigaction catching = {.handler = (u64)kr_host_handler,
                                          .flags = SA_SIGINFO | SA_RESTORER,
                                          .restorer = (u64)kr_host_restorer,
                                          .mask = KR_HOST_BLOCK_ALL};
    struct kr_sigaction was[KR_COUNT(ending)];
    kr_sigset block = 0, mask = 0;
    for (u32 i = 0; i < KR_COUNT(ending); i++) /* one that krun's caller ignores stays ignored */
        if (kr_sys4(__NR_rt_sigaction, ending[i], 0, &was[i], 8) == 0 && was[i].handler == (u64)SIG_DFL)
            block |= KR_SIGBIT(ending[i]);
    kr_sys4(__NR_rt_sigprocmask, SIG_BLOCK, &block, &mask, 8);
    for (u32 i = 0; i < KR_COUNT(ending); i++)
        if (block & KR_SIGBIT(ending[i]))
            kr_sys4(__NR_rt_sigaction, ending[i], &catching, 0, 8);
    long r = wait_for_byte(t, fd, mask);
    if (t->sig_caught) /* the process ends: nothing is restored */
        return t->info.si_signo;
    for (u32 i = 0; i < KR_COUNT(ending); i++)
        if (block & KR_SIGBIT(ending[i]))
            kr_sys4(__NR_rt_sigaction, ending[i], &was[i], 0, 8);
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    return r;
}
