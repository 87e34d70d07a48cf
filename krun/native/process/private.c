/* SPDX-License-Identifier: Apache-2.0
 *
 * Short-lived host threads with a descriptor table of their own. No thread of the payload reaches a
 * descriptor that such a thread opens, because the payload shares another table. The new table begins as a
 * copy. The thread closes all of it before the caller continues, so that no descriptor of the payload stays
 * open longer than the call.
 *
 * State: none. The new thread is born with all signals blocked, because a signal must reach a thread of the
 * payload. SIGSEGV and SIGBUS are blocked, too: another process can send them to the process, and the handler
 * would take the caller's task for its own. So fn touches no guest memory by itself; the kernel does (EFAULT).
 */
#include "../machine/fdtab.h"
#include "bury.h"
#include "hostsig.h"
#include "process.h"
#include "quiesce.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/time.h>
#include <linux/time_types.h>

struct errand {
    long ret;
    long (*fn)(void *);
    void *arg;
    int left; /* a descriptor that is closed by the thread's end, and not before; -1: none */
};

static void close_but(u32 left, u32 first, u32 last) {
    if (left > first)
        kr_sys3(__NR_close_range, first, KR_MIN(left - 1, last), 0);
    if (left < last)
        kr_sys3(__NR_close_range, KR_MAX(left + 1, first), last, 0);
}

static void run(struct kr_task *arg) {
    struct errand *e = (struct errand *)arg;
    u32 left = (u32)e->left;
    e->ret = e->fn(e->arg);
    /* The kernel clears tid before it releases the table, so the descriptors are closed here. The fixed
     * numbers go with the table, because the jail lets no code close them. */
    close_but(left, 0, kr_fd_base() - 1);
    close_but(left, kr_fd_base() + KR_FD_FIXED, ~0u);
    for (;;)
        kr_sys1(__NR_exit, 0);
}

/* Runs e->fn(e->arg) on a host thread without CLONE_FILES and waits for it. flags: further clone flags (CLONE_FS). begun:
 * called on the calling thread when the other one has its table. The result of e->fn or -errno. The thread's number stands in the task: the kernel writes it before the thread runs, and clears it and wakes
 * the waiter when the thread has left the memory. Whoever releases a dead task reads it. */
static long errand(struct kr_task *t, u64 flags, struct errand *e, void (*begun)(void *)) {
    u32 at = *kr_life_errand(t, 0) !=
             0; /* an errand's thread may need another errand: to learn who holds a lock */
    void *stack = kr_stack_new();
    if (!stack)
        return -ENOMEM;
    u32 *number = kr_life_errand(t, at);
    t->errand_stack[at] = stack;
    struct kr_clone_args ca = {.flags = flags | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                                        CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                               .child_tid = (u64)number,
                               .parent_tid = (u64)number,
                               .stack = (u64)stack + KR_STACK_GUARD,
                               .stack_size = KR_STACK_SIZE,
                               .tls = (u64)t};
    kr_sigset all = ~0ULL, old;
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    long r = kr_host_clone(&ca, run, (struct kr_task *)e);
    kr_host_mask(~0ULL);
    if (r > 0 && begun)
        begun(e->arg);
    if (r > 0) {
        for (u32 tid; (tid = __atomic_load_n(number, __ATOMIC_ACQUIRE));)
            kr_sys4(__NR_futex, number, FUTEX_WAIT, tid, 0); /* the kernel wakes without FUTEX_PRIVATE_FLAG */
        /* Waits until /proc shows the thread no more: /proc/PID/status and task show an ending thread a
         * little longer. */
        const s64 moment[2] = {0, 10000};
        long pid = kr_sys0(__NR_getpid);
        for (u32 i = 0; i < 1000 && kr_sys3(__NR_tgkill, pid, r, 0) == 0; i++)
            if (i >= 20)
                kr_sys2(__NR_nanosleep, moment, 0);
        r = e->ret;
    }
    kr_host_mask_back(t, old);
    t->errand_stack[at] = NULL; /* first: nobody unmaps it twice */
    kr_sys2(__NR_munmap, stack, KR_STACK_SIZE + KR_STACK_GUARD);
    return r;
}

void kr_errands_over(struct kr_task *t) {
    const s64 moment[2] = {0, 1000000};
    for (u32 i = 0; i < KR_COUNT(t->errand); i++) {
        u32 *number = kr_life_errand(t, i);
        for (u32 tid; (tid = __atomic_load_n(number, __ATOMIC_ACQUIRE));)
            kr_sys4(__NR_futex, number, FUTEX_WAIT, tid, &moment);
    }
}

long kr_private(struct kr_task *t, long (*fn)(void *), void *arg) {
    struct errand e = {.fn = fn, .arg = arg, .left = -1};
    return kr_files_shared(t) ? errand(t, CLONE_FS, &e, NULL) : fn(arg);
}

long kr_alone(struct kr_task *t, long (*fn)(void *), void *arg) {
    struct errand e = {.fn = fn, .arg = arg, .left = -1};
    return errand(t, 0, &e, NULL); /* without CLONE_FS: the thread has a working directory of its own */
}

/* ---- Closing what may wait ---- */

#define MOMENT 10000000 /* ns: how long a close may wait */

struct aside {
    void (*drop)(void *);
    void *arg;
    u32 dropped; /* futex word */
};

static long wait_dropped(void *arg) {
    struct aside *a = arg;
    while (!__atomic_load_n(&a->dropped, __ATOMIC_ACQUIRE))
        kr_sys4(__NR_futex, &a->dropped, FUTEX_WAIT_PRIVATE, 0, 0);
    return 0;
}

static void drop(void *arg) {
    struct aside *a = arg;
    a->drop(a->arg);
    __atomic_store_n(&a->dropped, 1, __ATOMIC_RELEASE);
    kr_sys3(__NR_futex, &a->dropped, FUTEX_WAKE_PRIVATE, 1);
}

/* Closes on this thread what may wait. A close waits only as long as no signal is there for the thread (sk_stream_wait_close() and its
 * relatives in the kernel), and one is there until the thread is back from the kernel: so one ends all the waits of a close. */
static void drop_kicked(void (*fn)(void *), void *arg) {
    const struct __kernel_itimerspec soon = {{0, MOMENT}, {0, MOMENT}};
    struct sigevent e;
    s32 id = -1;
    memset(&e, 0, sizeof e);
    e.sigev_value.sival_ptr = (void *)KR_QUIESCE_KICK;
    e.sigev_signo = SIGBUS;
    e.sigev_notify = SIGEV_THREAD_ID;
    e.sigev_notify_thread_id = (s32)kr_sys0(__NR_gettid);
    long r = kr_sys3(__NR_timer_create, CLOCK_MONOTONIC, &e, &id);
    if (r == 0)
        kr_sys4(__NR_timer_settime, id, 0, &soon, 0);
    fn(arg);
    if (r == 0)
        kr_sys1(__NR_timer_delete, id);
}

void kr_close_aside(struct kr_task *t, int fd, void (*fn)(void *), void *arg) {
    struct aside a = {.drop = fn, .arg = arg};
    struct errand e = {.fn = wait_dropped, .arg = &a, .left = fd};
    if (errand(t, CLONE_FS, &e, drop) < 0)
        drop_kicked(fn, arg); /* no thread */
}

struct call_from {
    int cwd;
    long nr;
    const u64 *a;
};

static long call_from(void *arg) {
    const struct call_from *c = arg;
    long r = kr_sys1(__NR_fchdir, c->cwd);
    return r < 0 ? r : kr_sys6(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
}

long kr_call_from(struct kr_task *t, int cwd, long nr, const u64 a[6]) {
    struct call_from c = {cwd, nr, a};
    return kr_alone(t, call_from, &c);
}
