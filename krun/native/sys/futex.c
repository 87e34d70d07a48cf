/* SPDX-License-Identifier: Apache-2.0
 *
 * Futexes and robust lists. No state of its own, no locks.
 *
 * A guest word is a host word at the same address, so the kernel performs all operations. The robust list
 * (get_robust_list(2)) is the dangerous part. When a thread ends, the kernel walks a list that the payload
 * can change at any moment. It marks every word of the process that contains the thread's tid, the monitor's
 * words included. So the kernel may walk a list only if the whole address space ends with the thread (death
 * by a signal, exit_group(2)):
 *
 *   a thread that exits alone        unregisters its list; kr_robust_exit walks it, with checks
 *   a process made with CLONE_VM     registers no list, because its death must not touch its relatives
 *   while such a process lives       the kernel finds every list of the address space empty
 *
 * The kernel lets a thread change only its own registration. Therefore a thread that is not alone registers a
 * head in monitor memory (task->robust.shadow) whose first entry is the payload's head: every thread can make
 * that head empty with one store. Such a head has no list_op_pending, so the instructions between the change
 * of a lock's word and of the list are not covered. A thread that is alone registers the payload's own head,
 * which is exact.
 */
#include "../process/robust.h"
#include "table.h"
#include "../machine/mm.h"
#include "../view/ask.h"
#include "../lib/kr_linux.h"
#include <linux/futex.h>

long sys_futex(struct kr_task *t, const u64 a[6]) {
    u64 word = kr_guest_ptr(a[0], 4), word2 = a[4], arg = a[3];
    switch ((u32)a[1] & (u32)FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_WAIT_REQUEUE_PI:
        if (arg)
            arg = kr_guest_ptr(arg, 16); /* a timeout; for other operations a count */
        break;
    default:
        arg = (u32)arg;
        break;
    }
    if (t->resumed && t->waited) {
        u64 b[6] = {word, a[1], a[2], arg};
        kr_ask_adjust(t, __NR_futex, b);
        arg = b[3];
    }
    return kr_call_intr(__NR_futex, word, a[1], a[2], arg, word2 ? kr_guest_ptr(word2, 4) : 0, a[5]);
}

struct waiter {
    u64 val, uaddr;
    u32 flags, reserved;
};

static void check_waiters(struct waiter *w, u32 n) {
    for (u32 i = 0; i < n; i++)
        w[i].uaddr = kr_guest_ptr(w[i].uaddr, 8);
}

long sys_futex_waitv(struct kr_task *t, const u64 a[6]) {
    (void)t;
    struct waiter w[FUTEX_WAITV_MAX];
    u32 n = (u32)a[1];
    u64 arg = (u64)w;
    if (!n || n > FUTEX_WAITV_MAX || kr_copy_in(w, a[0], n * sizeof *w) < 0)
        arg = a[0] ? KR_BAD_PTR : 0; /* the kernel refuses a null pointer before the flags of a time */
    else
        check_waiters(w, n);
    return kr_call_intr(__NR_futex_waitv, arg, a[1], a[2], a[3], a[4], 0);
}

long sys_futex_requeue(struct kr_task *t, const u64 a[6]) {
    (void)t;
    struct waiter w[2];
    if (kr_copy_in(w, a[0], sizeof w) < 0)
        return kr_call_intr(__NR_futex_requeue, a[0] ? KR_BAD_PTR : 0, a[1], a[2], a[3], 0, 0);
    check_waiters(w, 2);
    return kr_call_intr(__NR_futex_requeue, (u64)w, a[1], a[2], a[3], 0, 0);
}

/* ---- robust lists ---- */

struct head {
    u64 next;
    s64 offset;
    u64 pending;
};

#define LIST_LIMIT 2048 /* ROBUST_LIST_LIMIT in the kernel */

static int alone(struct kr_task *t) { return t->mm->tasks == t && !t->next && !t->mm->relatives; }

/* Registers t's list with the kernel: the payload's head if t is alone on the mm, else the shadow. mm->lock
 * is held. 0 or -errno. */
static long tell_kernel(struct kr_task *t) {
    struct kr_robust *r = &t->robust;
    struct head h = {0, 0, 0};
    r->shadowed = 0;
    if (alone(t))
        return kr_sys2(__NR_set_robust_list, kr_guest_ptr(r->guest, sizeof h), sizeof h);
    if (!r->guest || kr_copy_in(&h, r->guest, sizeof h) < 0) /* the kernel could not read it either */
        return kr_sys2(__NR_set_robust_list, 0, sizeof h);
    r->shadowed = 1;
    r->shadow.offset = h.offset;
    r->shadow.pending = 0;
    r->shadow.next = t->mm->relatives ? (u64)&r->shadow : r->guest;
    return kr_sys2(__NR_set_robust_list, &r->shadow, sizeof h);
}

long sys_set_robust_list(struct kr_task *t, const u64 a[6]) {
    if (a[1] != sizeof(struct head))
        return -EINVAL;
    if (t->is_vfork)
        return 0;
    kr_lock(&t->mm->lock);
    t->robust.guest = a[0];
    long r = t->life ? 0 : tell_kernel(t); /* else the kernel has, or gets, another list (process/bury.h) */
    kr_unlock(&t->mm->lock);
    return r;
}

long sys_get_robust_list(struct kr_task *t, const u64 a[6]) {
    u32 tid = (u32)a[0] ? (u32)a[0] : t->tid;
    u64 list = 0, size = sizeof(struct head);
    kr_lock(&t->mm->lock);
    struct kr_task *o = t->mm->tasks;
    while (o && (o->tid != tid || o->proc != t->proc))
        o = o->next;
    if (o)
        list = o->robust.guest;
    kr_unlock(&t->mm->lock);
    if (!o) { /* another process: the kernel's answer may be an address in that monitor */
        long r = kr_sys3(__NR_get_robust_list, tid, &list, &size);
        return r < 0 ? r : -EPERM;
    }
    return kr_copy_out(a[2], &size, sizeof size) < 0 || kr_copy_out(a[1], &list, sizeof list) < 0 ? -EFAULT
                                                                                                  : 0;
}

/* Makes every shadow of the mm empty (shown 0), or lets it lead to the payload's head again. mm->lock is
 * held. */
static void show_lists(struct kr_mm *mm, int shown) {
    for (struct kr_task *o = mm->tasks; o; o = o->next)
        if (o->robust.shadowed)
            __atomic_store_n(&o->robust.shadow.next, shown ? o->robust.guest : (u64)&o->robust.shadow,
                             __ATOMIC_SEQ_CST);
}

void kr_robust_share(struct kr_task *t, int process) {
    kr_lock(&t->mm->lock);
    if (process && !t->mm->relatives++)
        show_lists(t->mm, 0);
    if (t->robust.guest && !t->robust.shadowed && !t->life)
        tell_kernel(t);
    kr_unlock(&t->mm->lock);
}

static void unshare(struct kr_task *t, int process) {
    if (process && !--t->mm->relatives)
        show_lists(t->mm, 1);
    if (t->robust.shadowed && alone(t)) /* the payload's own head again */
        tell_kernel(t);
}

void kr_robust_unshare(struct kr_task *t, int process) {
    kr_lock(&t->mm->lock);
    unshare(t, process);
    kr_unlock(&t->mm->lock);
}

void kr_robust_left(struct kr_task *t) { unshare(t, 1); }

void kr_robust_after_fork(struct kr_task *t) {
    memset(&t->robust, 0, sizeof t->robust);
    t->mm->relatives = 0;
}

/* Marks one word FUTEX_OWNER_DIED and wakes a waiter, as handle_futex_death() in the kernel does. 0, or
 * -EFAULT: the walk ends. */
static long owner_died(u32 tid, u64 entry, s64 offset, int pi, int pending) {
    u64 addr = entry + (u64)offset;
    if ((addr & 3) || !kr_span_ok(addr, 4))
        return -EFAULT;
    u32 seen = 0;
    if (kr_copy_in(&seen, addr, 4) < 0)
        return -EFAULT;
    if (pending && !pi && !seen) { /* the thread has unlocked the word, but not woken a waiter */
        kr_sys3(__NR_futex, addr, FUTEX_WAKE, 1);
        return 0;
    }
    for (;;) {
        if ((seen & FUTEX_TID_MASK) != tid)
            return 0;
        u32 want = (seen & FUTEX_WAITERS) | FUTEX_OWNER_DIED, now;
        if (kr_cas32_raw((u32 *)addr, seen, want, &now) < 0)
            return -EFAULT;
        if (now == seen)
            break;
        seen = now;
    }
    if (!pi && (seen & FUTEX_WAITERS))
        kr_sys3(__NR_futex, addr, FUTEX_WAKE, 1);
    return 0;
}

void kr_robust_exit(struct kr_task *t) {
    u64 list = t->robust.guest;
    if (t->is_vfork || !list)
        return;
    if (!t->life)
        kr_sys2(__NR_set_robust_list, 0, sizeof(struct head));
    t->robust.guest = 0;
    struct head h;
    if (kr_copy_in(&h, list, sizeof h) < 0)
        return;
    u64 entry = h.next & ~1ULL, pending = h.pending & ~1ULL;
    int pi = h.next & 1;
    for (u32 n = 0; entry != list && n < LIST_LIMIT; n++) {
        u64 next;
        long more = kr_copy_in(&next, entry, 8); /* before the entry may be unlocked and reused */
        if (entry != pending && owner_died(t->tid, entry, h.offset, pi, 0) < 0)
            return;
        if (more < 0)
            return;
        entry = next & ~1ULL;
        pi = next & 1;
    }
    if (pending)
        owner_died(t->tid, pending, h.offset, h.pending & 1, 1);
}
