/* SPDX-License-Identifier: Apache-2.0
 *
 * SECCOMP_RET_USER_NOTIF of the OCI profile: the agent of linux.seccomp.listenerPath is asked, through krun's relay
 * (abi/notify.h; docs/architecture.md, "Seccomp notifications").
 *
 * State: task->notified and task->passed, which only the task's own thread touches. No locks. Called from dispatch.
 *
 * The wait is a host call whose number the kernel does not have. So a signal interrupts and restarts it as the kernel does
 * with a notification, and a stop or a question of another monitor (process/resume.h) leads here again: `resumed` says so,
 * the tag stays the same, and the agent is not asked twice. The payload executes its SYSCALL for that once more, and another thread may
 * have changed the instruction: so a call that the agent has let pass is known by its number and arguments, too.
 */
#include "sys.h"
#include "path.h"
#include "../abi/notify.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../process/above.h"
#include <linux/fcntl.h>

/* The agent lets the call pass; else task->notified is the tag. */
#define PASSED 0x80000000u
#define TAGS 0xfffu

static u64 number(const struct kr_task *t, u32 kind) {
    return KR_NOTIFY_BASE | kind << 24 | (t->notified & TAGS) << 12 | ((u32)t->nr & 0xfff);
}

/* Moves the agent's descriptor to the number that the agent has chosen, as dup3(2) of the payload would: it replaces no
 * descriptor of the monitor's. The number or -errno. */
static long move(struct kr_task *t, u64 answer) {
    const u64 mask = (1u << KR_NOTIFY_FD_BITS) - 1;
    u64 from = answer & mask, to = answer >> KR_NOTIFY_FD_BITS & mask;
    if (t->mm->sockets)
        kr_sockets_passed(
            t, to); /* not kr_sockets_named: the thread's call, which may be a read, says nothing of it */
    long r = kr_fd_dup_onto(from, to, answer & KR_NOTIFY_CLOEXEC ? O_CLOEXEC : 0);
    kr_fd_shut((long)from);
    kr_listing_forget(to, to);
    return r;
}

/* Whether the call is the one that the agent has let pass. */
static int is_passed(const struct kr_task *t) {
    return t->passed[0] == t->nr && memcmp(t->passed + 1, t->args, sizeof t->args) == 0;
}

int kr_notify(struct kr_task *t, long *ret) {
    const u64 *a = t->args;
    if (t->notified & PASSED && !is_passed(t))
        t->resumed = 0;
    if (!t->resumed)
        t->notified = (u32)(kr_ticks() >> 6) & TAGS;
    if (t->notified & PASSED)
        return 1;
    *ret = -ENOSYS;
    if ((u32)t->nr > 0xfff)
        return 0;
    for (;;) {
        long r = kr_call_intr((long)number(t, KR_NOTIFY_CALL), a[0], a[1], a[2], a[3], a[4], a[5]);
        int moved = 0;
        for (; ((u64)r & KR_NOTIFY_MOVE_MASK) == KR_NOTIFY_MOVE; moved = 1)
            r = kr_sys1((long)number(t, KR_NOTIFY_MOVED), move(t, (u64)r));
        if ((u64)r == KR_NOTIFY_PASS) {
            t->notified |= PASSED;
            t->passed[0] = t->nr;
            memcpy(t->passed + 1, t->args, sizeof t->args);
            return 1;
        }
        /* No result yet: the relay says so, or a signal has cut short the word about a move. */
        if ((u64)r != KR_NOTIFY_AGAIN && !(moved && r == -EINTR && t->sig_caught)) {
            *ret = r;
            return 0;
        }
        if (!t->resumed) { /* a stop or a signal from here on finds a call that has begun */
            t->waited = 0;
            t->resumed = 1;
            t->resume_rip = kr_regs(t)->rip - 2;
        }
    }
}

void kr_notify_served(struct kr_task *t, long ret) {
    if (ret == -KR_ERESTART && t->resumed) /* executed again, without another word to the agent */
        return;
    if (t->notified & PASSED)
        kr_sys0((long)number(t, KR_NOTIFY_DONE));
    t->notified = 0;
}
