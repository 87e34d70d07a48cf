/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixed numbers and slots of the monitor's descriptors: see fdtab.h. Any thread may call.
 *
 * State: kr_fd_block (constant after start); owner[], the tasks that have the groups of slots: one store takes or gives a
 * group, so that a task that is killed has it or has it not; given and waiting, for those that wait (all atomic). A slot is
 * filled and emptied under fdtab_lock. lingering (atomic).
 */
#include "fdplace.h"
#include "mm.h"
#include "above.h"

#define GROUP KR_FD_SLOTS_TASK
#define GROUPS ((kr_fd_block.nslots + GROUP - 1) / GROUP)
_Static_assert(KR_FD_SLOTS <= 32 && KR_FD_SLOTS % GROUP == 0, "a word of bits");

struct kr_fd_block kr_fd_block;
static u32 given;                                  /* futex word: counts groups that were given back */
static u32 waiting;                                /* tasks wait for a group */
static struct kr_task *owner[KR_FD_SLOTS / GROUP]; /* NULL: the group is free */
static u32 lingering;                              /* bit g: the owner of group g waits for long */

u32 kr_fd_base(void) { return kr_fd_block.base; }

u64 kr_fd_place(void) { return kr_fd_block.base | (u64)kr_fd_block.nslots << 32; }

/* Puts a duplicate of `from` at `number`. 0; -EBUSY: the number is in use; another -errno. */
static int occupy(int from, u32 number) {
    long n = kr_sys3(__NR_fcntl, from, F_DUPFD, number);
    if (n < 0)
        return (int)n;
    if ((u32)n == number)
        return 0;
    kr_sys1(__NR_close, n);
    return -EBUSY;
}

int kr_fd_fix(int *const fd[KR_FD_FIXED], int plug, int *number) {
    struct kr_rlimit_pair r;
    kr_fd_get_limit(&r);
    u32 at = kr_fd_choose_base(&r);
    u64 top = KR_MAX(r.soft, KR_MIN(r.hard, at + 2ULL * KR_FD_ROOM_ABOVE));
    u64 left = top > at + KR_FD_FIXED ? top - at - KR_FD_FIXED : 0; /* half of what is left is for vCPUs */
    u32 n = (u32)KR_MIN(left / 2, (u64)KR_FD_SLOTS);
    long spare = kr_sys2(__NR_eventfd2, 0, 0);
    int e = spare < 0 ? (int)spare : !n ? -EMFILE : 0;
    *number = (int)at;
    if (top > r.soft)
        kr_fd_set_limit(r.hard, r.hard);
    for (u32 i = 0; !e && i < KR_FD_FIXED + n + 1; i++) {
        int *from = i < KR_FD_FIXED ? fd[i] : NULL;
        *number = (int)(at + i);
        e = occupy(i == KR_FD_FIXED + n ? plug : from && *from >= 0 ? *from : (int)spare, at + i);
        if (!e && from && *from >= 0) {
            kr_sys1(__NR_close, *from);
            *from = (int)(at + i);
        }
    }
    if (top > r.soft)
        kr_fd_set_limit(r.soft, r.hard);
    if (spare >= 0)
        kr_sys1(__NR_close, spare);
    kr_sys1(__NR_close, plug);
    kr_fd_block.base = at;
    kr_fd_block.nslots = n;
    kr_fd_block.span = KR_FD_FIXED + n + 1;
    return e;
}

/* Puts the placeholder into slot i, in place of what is there. */
static long fill(u32 i) {
    return kr_fd_beyond_limit(__NR_dup3, KR_FD_SPARE, KR_FD_SLOT(i), 0, KR_FD_SLOT(i));
}

int kr_fd_fixed_again(struct kr_task *t, u64 place, const int *kept, u32 nkept) {
    struct {
        s32 fd;
        u16 events, revents;
    } p[KR_FD_SLOTS];
    kr_fd_block.base = (u32)place;
    kr_fd_block.nslots = (u32)(place >> 32);
    if (kr_fd_block.nslots > KR_FD_SLOTS || !kr_fd_block.nslots || kr_fd_block.base > (1u << 30))
        return -EINVAL;
    kr_fd_block.span = KR_FD_FIXED + kr_fd_block.nslots + 1;
    for (u32 i = 0; i < kr_fd_block.nslots; i++) {
        p[i].fd = (s32)KR_FD_SLOT(i);
        p[i].events = p[i].revents = 0;
    }
    for (u32 k = 0; k < nkept; k++)
        if (kr_fd_in_slots((u32)kept[k])) { /* all are one task's: so all are in one group */
            u32 i = (u32)kept[k] - KR_FD_SLOT(0);
            t->slot_group = i / GROUP;
            owner[i / GROUP] = t;
            t->slots |= 1u << i % GROUP;
        }
    long r = kr_sys3(__NR_poll, p, kr_fd_block.nslots, 0); /* -EINVAL: RLIMIT_NOFILE is lower than nslots */
    for (u32 i = 0; i < kr_fd_block.nslots && r; i++) {
        int is_kept = owner[i / GROUP] == t && t->slots >> i % GROUP & 1;
        if (!is_kept && (r < 0 || p[i].revents))
            fill(i);
    }
    return 0;
}

#define TRIES 100
#define PATIENCE 20000000L /* ns until the owners are looked at */

/* Waits for a group to become free. Those of relatives that were killed are given back. */
static void wait_group(struct kr_task *t, u32 seen) {
    const s64 patience[2] = {0, PATIENCE};
    long r = kr_sys4(__NR_futex, &given, FUTEX_WAIT_PRIVATE, seen, &patience);
    if (r != -ETIMEDOUT || !t->mm->relatives)
        return;
    kr_lock(&t->mm->lock);
    kr_bury(t, 1);
    kr_unlock(&t->mm->lock);
}

/* Gives t a free group of slots; waits for one. 0; -KR_ERESTART: a signal came first. */
static int take_group(struct kr_task *t) {
    for (;;) {
        u32 seen = __atomic_load_n(&given, __ATOMIC_SEQ_CST);
        for (u32 i = 0; i < GROUPS; i++) {
            struct kr_task *nobody = NULL;
            if (!__atomic_load_n(&owner[i], __ATOMIC_RELAXED) &&
                __atomic_compare_exchange_n(&owner[i], &nobody, t, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
                t->slot_group = i;
                return 0;
            }
        }
        if (t->sig_caught)
            return -KR_ERESTART;
        if (__atomic_exchange_n(&waiting, 1, __ATOMIC_SEQ_CST)) /* else the groups are looked at once more */
            wait_group(t, seen);
    }
}

static u32 bits(u32 v) {
    u32 n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

/* A task's bit goes with its group, so that a task that is killed leaves no count behind. */
int kr_slot_linger(int fd) {
    if (!kr_fd_in_slots((u32)fd))
        return 1;
    u32 bit = 1u << ((u32)fd - KR_FD_SLOT(0)) / GROUP, most = GROUPS > 3 ? GROUPS - 2 : 1;
    u32 now = __atomic_load_n(&lingering, __ATOMIC_RELAXED);
    do {
        if (bits(now) >= most)
            return 0;
    } while (
        !__atomic_compare_exchange_n(&lingering, &now, now | bit, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 1;
}

static void give_group(u32 group) {
    __atomic_and_fetch(&lingering, ~(1u << group), __ATOMIC_RELAXED);
    __atomic_store_n(&owner[group], NULL, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&given, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&waiting, 0, __ATOMIC_SEQ_CST))
        kr_sys3(__NR_futex, &given, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

/* Gives t a slot. The slot's index; -KR_ERESTART: a signal came first; -EMFILE: t has KR_FD_SLOTS_TASK. */
static long take_slot(struct kr_task *t) {
    int r = t->slots ? 0 : take_group(t);
    if (r < 0)
        return r;
    for (u32 i = 0; i < GROUP; i++)
        if (!(t->slots >> i & 1) && t->slot_group * GROUP + i < kr_fd_block.nslots) {
            t->slots |= 1u << i;
            return t->slot_group * GROUP + i;
        }
    return -EMFILE;
}

static void give_slot(struct kr_task *t, u32 i) {
    t->slots &= ~(1u << i % GROUP);
    if (!t->slots)
        give_group(i / GROUP);
}

/* The descriptors of a dead task are in the table of its process. The placeholder comes in their place where that is the
 * caller's table, too; elsewhere the group's next owner replaces them. */
void kr_slots_release(struct kr_task *t) {
    for (u32 g = 0; g < GROUPS; g++) {
        if (__atomic_load_n(&owner[g], __ATOMIC_RELAXED) != t)
            continue;
        kr_fdtab_hold();
        for (u32 i = g * GROUP; i < (g + 1) * GROUP && i < kr_fd_block.nslots; i++)
            fill(i);
        kr_fdtab_release();
        t->slots = 0;
        give_group(g);
    }
}

static int into_slot(struct kr_task *t, u64 fd) {
    long i = take_slot(t);
    if (i < 0)
        return (int)i;
    kr_fdtab_hold();
    long n = -EBADF;
    if (!kr_fd_hidden_locked((u32)fd)) {
        n = kr_fd_beyond_limit(__NR_dup3, (u32)fd, KR_FD_SLOT((u32)i), O_CLOEXEC, KR_FD_SLOT((u32)i));
        if (n == -EBADF && kr_sys3(__NR_fcntl, (u32)fd, F_GETFD, 0) >= 0)
            n = -EMFILE; /* the slot lies beyond the hard limit */
    }
    kr_fdtab_release();
    if (n < 0)
        give_slot(t, (u32)i);
    return (int)n;
}

int kr_slot_put(struct kr_task *t, int fd) {
    if (fd < 0 || !kr_files_shared(t))
        return fd;
    int n = into_slot(t, (u32)fd);
    kr_fd_shut(fd);
    return n;
}

int kr_slot_dup(struct kr_task *t, u64 fd) {
    return kr_files_shared(t) ? into_slot(t, fd) : (int)kr_fd_dup(fd, F_DUPFD_CLOEXEC, 0);
}

/* The call of kr_slot_make. number: -EBADF if it is hidden; fdtab_lock is held. ~0: none. */
static long call_made(u32 number, long nr, const u64 a[4]) {
    return number != ~0u && kr_fd_hidden_locked(number) ? -EBADF : kr_sys4(nr, a[0], a[1], a[2], a[3]);
}

static int make(struct kr_task *t, int slot, u32 number, long nr, const u64 a[4]) {
    int was = slot;
    if (slot < 0 ? !kr_files_shared(t) || t->is_vfork : !kr_fd_in_slots((u32)slot)) {
        kr_fdtab_hold();
        long fd = call_made(number, nr, a);
        kr_fdtab_release();
        kr_slot_free(was);
        return kr_slot_put(t, (int)fd);
    }
    long i = slot < 0 ? take_slot(t) : (long)slot - KR_FD_SLOT(0), n = -EAGAIN;
    if (i < 0)
        return (int)i;
    for (int tries = 0; n == -EAGAIN && tries < TRIES; tries++) {
        kr_lock(&t->mm->lock);
        kr_fd_hide_begin(t->mm);
        n = kr_fd_hide_slot(t->mm, (int)call_made(number, nr, a), KR_FD_SLOT((u32)i));
        kr_unlock(&t->mm->lock);
    }
    if (n < 0)
        kr_slot_free((int)KR_FD_SLOT((u32)i));
    return (int)n;
}

int kr_slot_make(struct kr_task *t, int slot, long nr, const u64 a[4]) { return make(t, slot, ~0u, nr, a); }

int kr_slot_make_of(struct kr_task *t, u32 number, long nr, const u64 a[4]) {
    return make(t, -1, number, nr, a);
}

long kr_slot_out(int fd, int cmd) {
    if (fd < 0 || !kr_fd_in_slots((u32)fd))
        return fd;
    long n = kr_sys3(__NR_fcntl, fd, (u64)cmd, 0);
    kr_slot_free(fd);
    return n;
}

void kr_slot_free(int fd) {
    if (fd < 0)
        return;
    if (!kr_fd_in_slots((u32)fd)) {
        kr_fd_shut(fd);
        return;
    }
    u32 i = (u32)fd - KR_FD_SLOT(0);
    kr_fdtab_hold();
    fill(i);
    kr_fdtab_release();
    give_slot(owner[i / GROUP], i);
}

void kr_fd_slots_after_fork(void) {
    for (u32 i = 0; i < kr_fd_block.nslots; i++)
        if (owner[i / GROUP])
            fill(i);
    memset(owner, 0, sizeof owner);
    waiting = lingering = 0;
}
