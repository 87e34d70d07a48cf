/* SPDX-License-Identifier: Apache-2.0
 *
 * Single calls whose arguments need a check: personality, POSIX timers, sysfs, fanotify_init, unshare, setns, move_pages.
 * No state.
 */
#include "nested.h"
#include "../machine/mm.h"
#include "../machine/vdso.h"
#include "../process/nnp.h"
#include "../process/ns.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include "../process/board.h"
#include "../process/holder.h"
#include <linux/fanotify.h>
#include <linux/personality.h>
#include <linux/sched.h>

long sys_personality(struct kr_task *t, const u64 a[6]) {
    u32 p = (u32)a[0], own = t->persona;
    /* READ_IMPLIES_EXEC is refused: it would have to change every mapping. Of the base personalities,
     * PER_LINUX32 changes only the machine name of uname(2). The others change the kernel's answers in ways
     * that the loader does not follow. */
    u32 base = p & PER_MASK;
    if (p != 0xffffffff && ((base != PER_LINUX && base != PER_LINUX32) || (p & READ_IMPLIES_EXEC)))
        return -EINVAL;
    long r = kr_call_intr(__NR_personality, p == 0xffffffff ? p : p & ~KR_PERSONA_OWN, 0, 0, 0, 0, 0);
    if (r >= 0 && p != 0xffffffff)
        t->persona = p & KR_PERSONA_OWN;
    return r < 0 ? r : r | own;
}

/* Calls on a POSIX timer by its number. One number may be the monitor's own (local/queue.c). */
static long timer_call(struct kr_task *t, long nr, const u64 a[6]) {
    return t->mm->sockets && kr_queue_is_timer(t, a[0]) ? -EINVAL : kr_forward(nr, a);
}
long sys_timer_settime(struct kr_task *t, const u64 a[6]) { return timer_call(t, __NR_timer_settime, a); }
long sys_timer_gettime(struct kr_task *t, const u64 a[6]) { return timer_call(t, __NR_timer_gettime, a); }
long sys_timer_getoverrun(struct kr_task *t, const u64 a[6]) {
    return timer_call(t, __NR_timer_getoverrun, a);
}
long sys_timer_delete(struct kr_task *t, const u64 a[6]) { return timer_call(t, __NR_timer_delete, a); }

/* The first argument decides whether the other two are numbers or pointers (sysfs(2)). */
long sys_sysfs(struct kr_task *t, const u64 a[6]) {
    (void)t;
    switch ((u32)a[0]) {
    case 1: /* number of a file system, by its name */
        return kr_call_intr(__NR_sysfs, 1, kr_guest_ptr(a[1], 1), 0, 0, 0, 0);
    case 2: /* name of a file system, by its number */
        return kr_call_intr(__NR_sysfs, 2, (u32)a[1], kr_guest_ptr(a[2], 1), 0, 0, 0);
    }
    return kr_call_intr(__NR_sysfs, (u32)a[0], 0, 0, 0, 0, 0);
}

/* Flags of a group that reports events by file handles: no descriptors in events, no permission events. */
#define FAN_NOTIFY_FLAGS (FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORTS)
#define FAN_REPORTS (FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME | FAN_REPORT_TARGET_FID)

long sys_fanotify_init(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (((u32)a[0] & ~(u32)FAN_NOTIFY_FLAGS) || !(a[0] & FAN_REPORTS))
        return -EPERM;
    return kr_forward(__NR_fanotify_init, a);
}

/* Notes the namespaces that unshare or setns has changed. r: the result of the call, returned. any: the flags
 * do not tell the kind. A call that fails may have left the user namespace all the same (process/alone.c). */
static long left_ns(struct kr_task *t, long r, u64 flags, int any) {
    if ((any || flags & CLONE_NEWUSER) && kr_ns_left(t->proc)) {
        kr_undumpable(); /* other credentials (sys/cred.c) */
        kr_board_update(t);
    }
    if (r == 0 && (any || flags & CLONE_NEWPID))
        t->newpid = kr_children_elsewhere();
    if (r == 0 && (any || flags & CLONE_NEWTIME))
        kr_holder_learn(t); /* by the clock of the time namespace, which /proc shows to relatives */
    return r;
}

long sys_unshare(struct kr_task *t, const u64 a[6]) {
    /* All threads need vCPUs and the other hidden descriptors, so they share one table. A process with one
     * thread has nothing to unshare. */
    if ((a[0] & CLONE_FILES) && kr_files_shared(t))
        return -EINVAL;
    long r = kr_forward(__NR_unshare, a);
    if (r == -EINVAL)
        r = kr_call_alone(t, __NR_unshare, a);
    return left_ns(t, r, a[0], 0);
}

long sys_setns(struct kr_task *t, const u64 a[6]) {
    long r = kr_forward(__NR_setns, a);
    if (r == -EINVAL || r == -EUSERS)
        r = kr_call_alone(t, __NR_setns, a);
    if (!a[1] || a[1] & CLONE_NEWTIME)
        kr_vdso_other_clocks(t->mm);
    return left_ns(t, r, a[1], !a[1]);
}

/* ---- memory ---- */

#define MOVE_MAX (1u << 17)

long sys_move_pages(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u32 pid = (u32)a[0];
    u64 n = a[1];
    long other = pid ? kr_own_thread(pid) : 0;
    if (other)
        return other;
    if (!n)
        return kr_forward(__NR_move_pages, a);
    if (n > MOVE_MAX)
        return -E2BIG;
    u64 *pages = kr_alloc(n * sizeof *pages);
    if (!pages)
        return -ENOMEM;
    long r = -EFAULT;
    if (kr_copy_in(pages, a[2], n * sizeof *pages) == 0) {
        for (u64 i = 0; i < n; i++)
            pages[i] = kr_guest_ptr(pages[i], 1);
        r = kr_call_intr(__NR_move_pages, a[0], n, (u64)pages, a[3], a[4], a[5]);
    }
    kr_free(pages, n * sizeof *pages);
    return r;
}
