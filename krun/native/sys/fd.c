/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptor numbers: close, close_range, dup. machine/fdtab.c has the monitor's hidden numbers. No state, no
 * locks.
 */
#include "../process/above.h"
#include "../process/process.h"
#include "path.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include <linux/close_range.h>
#include <linux/fcntl.h>

long sys_close(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (kr_fd_hidden(a[0]))
        return -EBADF;
    /* Not by kr_call_intr: a close that a question interrupts (EINTR of a file system that flushes) has closed the number, and must
     * not be made again (process/resume.h), because another thread may have got the number. */
    long n = kr_sys1(__NR_close, (u32)a[0]);
    kr_listing_forget(a[0], a[0]);
    return n;
}

struct range {
    u64 first, last, flags;
    long ret;
};

static void close_now(void *arg) {
    struct range *r = arg;
    r->ret = kr_fd_close_range(r->first, r->last, r->flags);
}

static long close_range(struct kr_task *t, const u64 a[6]) {
    u64 flags = (u32)a[2];
    if (flags & CLOSE_RANGE_UNSHARE) {
        /* The table of hidden numbers describes one descriptor table. A thread with a table of its own would
         * keep the monitor's files at numbers that are no longer hidden. A process with one thread has
         * nothing to unshare. */
        if (kr_files_shared(t))
            return -EINVAL;
        flags &= ~(u64)CLOSE_RANGE_UNSHARE;
    }
    struct range r = {a[0], a[1], flags, 0};
    if (!flags && (u32)a[0] <= (u32)a[1] && kr_files_shared(t))
        kr_close_aside(t, -1, close_now,
                       &r); /* under fdtab_lock no close is a file's last one, which could wait */
    else
        close_now(&r);
    kr_listing_forget(a[0], a[1]);
    return r.ret;
}

long sys_close_range(struct kr_task *t, const u64 a[6]) {
    int sockets = t->mm->sockets != NULL;
    if (sockets) /* until the end: one that another thread makes meanwhile may be closed, too */
        kr_sockets_clone(t, 1);
    long r = close_range(t, a);
    if (sockets)
        kr_sockets_clone(t, 0);
    return r;
}

long sys_dup(struct kr_task *t, const u64 a[6]) {
    long n = kr_fd_dup(a[0], F_DUPFD, 0);
    kr_sockets_copied(t, a[0]);
    return n;
}

/* While other threads share the table, the number a[0] can become the monitor's between its check and the call: so
 * the call gets a hidden copy. It closes what is at a[1], and that can wait, so no lock is held. */
static long dup_shared(struct kr_task *t, const u64 a[6], u64 flags) {
    if (!kr_fd_name(t, KR_NAMED_ONTO, a[1]))
        return -EBADF;
    int copy = kr_fd_pass(t->mm, a[0]);
    if (copy == -EBADF)
        return copy;
    if (copy < 0) /* no number is left */
        return kr_fd_dup_onto(a[0], a[1], flags);
    long n = kr_call_intr(__NR_dup3, (u64)copy, a[1], flags, 0, 0, 0);
    kr_fd_passed(copy);
    return n;
}

static int is_open(u64 fd) { return kr_sys3(__NR_fcntl, (u32)fd, F_GETFD, 0) >= 0; }

static long dup_to(struct kr_task *t, long nr, const u64 a[6]) {
    if (kr_fd_hidden(a[0]) || kr_fd_hidden(a[1]))
        return -EBADF;
    u64 flags = nr == __NR_dup3 ? (u32)a[2] : 0;
    long n = !kr_files_shared(t) ? kr_call_intr(nr, a[0], a[1], a[2], 0, 0, 0)
             : is_open(a[1])     ? dup_shared(t, a, flags)
                                 : kr_fd_dup_onto(a[0], a[1], flags);
    kr_listing_forget(a[1], a[1]);
    kr_sockets_copied(t, a[0]);
    kr_sockets_copied(t, a[1]);
    return n;
}

long sys_dup2(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[0] == (u32)a[1]) { /* is it open? */
        return kr_fd_hidden(a[0]) || !is_open(a[0]) ? -EBADF : (long)(u32)a[0];
    }
    return dup_to(t, __NR_dup2, a);
}

long sys_dup3(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[2] & ~(u32)O_CLOEXEC || (u32)a[0] == (u32)a[1])
        return -EINVAL;
    return dup_to(t, __NR_dup3, a);
}
