/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own descriptors among the payload's: the fixed numbers, the slots, and a table of the dynamic
 * ones.
 *
 * State: base and nslots (constant after start); busy, the slots in use (atomic); the table sorted by number,
 * under fdtab_lock (innermost but heap_lock). Any thread may call.
 *
 * Where they go: above the soft RLIMIT_NOFILE, where the payload gets no number by itself, as long as that is
 * not far up (the kernel copies a descriptor table up to its highest open number at every fork); else a
 * little below it. Not right at the limit: there are those who raise it by a few to have numbers out of their
 * own program's way (valgrind: by ten).
 *
 * A dynamic number is only forgotten while nobody has a private copy of the kernel's descriptor table (vfork
 * children): such a copy would still hold our file under the forgotten number, in the payload's reach. Until
 * then it is a ghost: ours, without a holder.
 */
#include "fdtab.h"
#include <linux/fcntl.h>
#include <linux/resource.h>
#include <linux/close_range.h>

#define O_CLOEXEC_ 02000000
#define HIGHEST_BASE 4096u /* do not place above this by choice */
#define ROOM_BELOW 64u     /* distance from the limit when we must stay below it */
#define ROOM_ABOVE 64u     /* and otherwise */

struct entry {
    int fd;
    int kind;
    int *holder; /* NULL: a ghost */
};

static struct kr_lock fdtab_lock;
static struct entry *tab;
static u32 count, room;
static u32 copies;          /* private copies of the descriptor table that live */
static const void *copying; /* the child whose copy is being made, with fdtab_lock held */
static int passing;         /* holder of what kr_fd_pass makes */
/* Every hidden number lies in [lowest, highest]. While a number is being made (before it is known) the range
 * is everything, so that readers wait for the lock. */
static u32 lowest = ~0u, highest;

static u32 base, nslots, span; /* span: fixed numbers and slots; 0 before they are there */
static u32 busy;               /* bit i: slot i is in use; atomic, and the word to wait on */
static u32 waiting;
static struct kr_task *owner[KR_FD_SLOTS / KR_FD_SLOTS_TASK]; /* of a busy group; written by that task */

#define SPARE (base + KR_FD_AT_SPARE)
#define SLOT(i) (base + KR_FD_FIXED + (i))
#define GROUP KR_FD_SLOTS_TASK
#define GROUPS ((nslots + GROUP - 1) / GROUP)
_Static_assert(KR_FD_SLOTS <= 32 && KR_FD_SLOTS % GROUP == 0, "a word of bits");

/* Fixed numbers and slots: constants, so the answer cannot change. */
static int in_block(u32 fd) { return fd - base < span; }

static int in_slots(u32 fd) { return fd - SLOT(0) < nslots; }

struct rlimit_pair {
    u64 soft, hard;
};

static void set_range(void) {
    __atomic_store_n(&highest, count ? (u32)tab[count - 1].fd : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&lowest, count ? (u32)tab[0].fd : ~0u, __ATOMIC_RELEASE);
}

static void open_range(void) {
    __atomic_store_n(&lowest, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&highest, ~0u, __ATOMIC_RELEASE);
}

/* Index of the first entry with a number >= fd. */
static u32 bound(u32 fd) {
    u32 lo = 0, hi = count;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if ((u32)tab[mid].fd < fd)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct entry *find(u32 fd) {
    u32 i = bound(fd);
    return i < count && (u32)tab[i].fd == fd ? &tab[i] : NULL;
}

static int hidden(u32 fd) { return in_block(fd) || find(fd); }

static int make_room(void) {
    if (count < room)
        return 0;
    u32 more = room ? room * 2 : 32;
    struct entry *p = kr_realloc(tab, room * sizeof *tab, more * sizeof *tab);
    if (!p)
        return -ENOMEM;
    tab = p;
    room = more;
    return 0;
}

static void insert(int fd, int kind, int *holder) {
    u32 i = bound((u32)fd);
    memmove(&tab[i + 1], &tab[i], (count - i) * sizeof *tab);
    tab[i] = (struct entry){fd, kind, holder};
    count++;
}

static void forget(struct entry *e) {
    memmove(e, e + 1, (size_t)(&tab[count] - (e + 1)) * sizeof *tab);
    count--;
}

/* ---- Limits ---- */

static void get_limit(struct rlimit_pair *r) {
    *r = (struct rlimit_pair){1024, 1024};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, r);
}

static void set_limit(u64 soft, u64 hard) {
    struct rlimit_pair r = {soft, hard};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &r, 0);
}

static u32 choose_base(const struct rlimit_pair *r) {
    if (r->soft <= HIGHEST_BASE && r->hard >= r->soft + 2 * ROOM_ABOVE)
        return (u32)r->soft + ROOM_ABOVE;
    u32 top = r->soft < HIGHEST_BASE ? (u32)r->soft : HIGHEST_BASE;
    return top > 2 * ROOM_BELOW ? top - ROOM_BELOW : top / 2;
}

/* A call that makes a descriptor at or above the soft limit: the kernel gives no such number (EMFILE, or
 * EBADF or EINVAL for one that was asked for), so the limit goes up for the moment. fdtab_lock is held, or
 * this is the only thread. */
static long beyond_limit(long nr, u64 fd, u64 a, u64 b, u64 number) {
    struct rlimit_pair r;
    long n = kr_sys3(nr, fd, a, b);
    if (n != -EMFILE && n != -EBADF && n != -EINVAL)
        return n;
    get_limit(&r);
    if (number < r.soft || r.soft == r.hard)
        return n;
    set_limit(r.hard, r.hard);
    n = kr_sys3(nr, fd, a, b);
    set_limit(r.soft, r.hard);
    return n;
}

/* ---- Fixed numbers and slots ---- */

u32 kr_fd_base(void) { return base; }

u64 kr_fd_place(void) { return base | (u64)nslots << 32; }

/* Where nobody had a number yet. */
static int occupy(int from, u32 number) {
    long n = kr_sys3(__NR_fcntl, from, F_DUPFD, number);
    if (n < 0)
        return (int)n;
    if ((u32)n == number)
        return 0;
    kr_sys1(__NR_close, n);
    return -EBUSY;
}

int kr_fd_fix(int *const fd[KR_FD_FIXED], int *number) {
    struct rlimit_pair r;
    get_limit(&r);
    u32 at = choose_base(&r);
    u64 top = KR_MAX(r.soft, KR_MIN(r.hard, at + 2ULL * ROOM_ABOVE));
    u64 left = top > at + KR_FD_FIXED ? top - at - KR_FD_FIXED : 0; /* half of what is left is for vCPUs */
    u32 n = (u32)KR_MIN(left / 2, (u64)KR_FD_SLOTS);
    long spare = kr_sys2(__NR_eventfd2, 0, 0);
    int e = spare < 0 ? (int)spare : !n ? -EMFILE : 0;
    *number = (int)at;
    if (top > r.soft)
        set_limit(r.hard, r.hard);
    for (u32 i = 0; !e && i < KR_FD_FIXED + n; i++) {
        int *from = i < KR_FD_FIXED ? fd[i] : NULL;
        *number = (int)(at + i);
        e = occupy(from && *from >= 0 ? *from : (int)spare, at + i);
        if (!e && from && *from >= 0) {
            kr_sys1(__NR_close, *from);
            *from = (int)(at + i);
        }
    }
    if (top > r.soft)
        set_limit(r.soft, r.hard);
    if (spare >= 0)
        kr_sys1(__NR_close, spare);
    base = at;
    nslots = n;
    span = KR_FD_FIXED + n;
    return e;
}

static long fill(u32 i) { return beyond_limit(__NR_dup3, SPARE, SLOT(i), 0, SLOT(i)); }

int kr_fd_fixed_again(struct kr_task *t, u64 place, const int *kept, u32 nkept) {
    struct {
        s32 fd;
        u16 events, revents;
    } p[KR_FD_SLOTS];
    base = (u32)place;
    nslots = (u32)(place >> 32);
    if (nslots > KR_FD_SLOTS || !nslots || base > (1u << 30))
        return -EINVAL;
    span = KR_FD_FIXED + nslots;
    for (u32 i = 0; i < nslots; i++) {
        p[i].fd = (s32)SLOT(i);
        p[i].events = p[i].revents = 0;
    }
    for (u32 k = 0; k < nkept; k++)
        if (in_slots((u32)kept[k])) { /* all of one task's, so of one group */
            u32 i = (u32)kept[k] - SLOT(0);
            busy = 1u << i / GROUP;
            t->slot_group = i / GROUP;
            owner[i / GROUP] = t;
            t->slots |= 1u << i % GROUP;
        }
    long r = kr_sys3(__NR_poll, p, nslots, 0); /* EINVAL: RLIMIT_NOFILE is lower than that */
    for (u32 i = 0; i < nslots && r; i++) {
        int is_kept = busy >> i / GROUP & 1 && t->slots >> i % GROUP & 1;
        if (!is_kept && (r < 0 || p[i].revents))
            fill(i);
    }
    return 0;
}

/* A group of slots for t. 0 or -KR_ERESTART. */
static int take_group(struct kr_task *t) {
    u32 all = (1u << GROUPS) - 1, b = __atomic_load_n(&busy, __ATOMIC_RELAXED);
    for (;;) {
        u32 left = all & ~b;
        if (!left) {
            __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
            if (!t->sig_caught)
                kr_sys4(__NR_futex, &busy, FUTEX_WAIT_PRIVATE, b, 0);
            __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
            if (t->sig_caught)
                return -KR_ERESTART;
            b = __atomic_load_n(&busy, __ATOMIC_SEQ_CST);
            continue;
        }
        u32 i = (u32)__builtin_ctz(left);
        if (__atomic_compare_exchange_n(&busy, &b, b | 1u << i, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            t->slot_group = i;
            owner[i] = t;
            return 0;
        }
    }
}

/* Index of a slot that is t's from now on; -KR_ERESTART; -EMFILE: it has all that a task may have. */
static long take_slot(struct kr_task *t) {
    int r = t->slots ? 0 : take_group(t);
    if (r < 0)
        return r;
    for (u32 i = 0; i < GROUP; i++)
        if (!(t->slots >> i & 1) && t->slot_group * GROUP + i < nslots) {
            t->slots |= 1u << i;
            return t->slot_group * GROUP + i;
        }
    return -EMFILE;
}

static void give_slot(struct kr_task *t, u32 i) {
    t->slots &= ~(1u << i % GROUP);
    if (t->slots)
        return;
    __atomic_and_fetch(&busy, ~(1u << i / GROUP), __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
        kr_sys3(__NR_futex, &busy, FUTEX_WAKE_PRIVATE, 1);
}

static int into_slot(struct kr_task *t, u64 fd) {
    long i = take_slot(t);
    if (i < 0)
        return (int)i;
    kr_lock(&fdtab_lock);
    long n = -EBADF;
    if (!hidden((u32)fd)) {
        n = beyond_limit(__NR_dup3, (u32)fd, SLOT((u32)i), O_CLOEXEC_, SLOT((u32)i));
        if (n == -EBADF && kr_sys3(__NR_fcntl, (u32)fd, F_GETFD, 0) >= 0)
            n = -EMFILE; /* the slot lies beyond the hard limit */
    }
    kr_unlock(&fdtab_lock);
    if (n < 0)
        give_slot(t, (u32)i);
    return (int)n;
}

int kr_slot_put(struct kr_task *t, int fd) {
    if (fd < 0 || !kr_files_shared(t))
        return fd;
    int n = into_slot(t, (u32)fd);
    kr_sys1(__NR_close, fd);
    return n;
}

int kr_slot_dup(struct kr_task *t, u64 fd) {
    return kr_files_shared(t) ? into_slot(t, fd) : (int)kr_fd_dup(fd, F_DUPFD_CLOEXEC, 0);
}

void kr_slot_free(int fd) {
    if (fd < 0)
        return;
    if (!in_slots((u32)fd)) {
        kr_sys1(__NR_close, fd);
        return;
    }
    u32 i = (u32)fd - SLOT(0);
    kr_lock(&fdtab_lock);
    fill(i);
    kr_unlock(&fdtab_lock);
    give_slot(owner[i / GROUP], i);
}

/* ---- The payload's limit ---- */

/* Whether the process may raise a hard limit (CAP_SYS_RESOURCE in the first user namespace): by raising it. */
static long may_raise(const struct rlimit_pair *now) {
    struct rlimit_pair more = {now->soft, now->hard + 1};
    return kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &more, 0);
}

static long change_limit(struct kr_proc *p, const struct rlimit_pair *now, u64 hard, const u64 fresh[2]) {
    u64 least = SLOT(nslots) + ROOM_ABOVE; /* below it the monitor's own numbers would be out of reach */
    long r = 0;
    if (fresh[0] > fresh[1])
        return -EINVAL;
    if (fresh[1] > hard && fresh[1] <= now->hard)
        r = may_raise(now);
    struct rlimit_pair set = {fresh[0], KR_MAX(fresh[1], KR_MIN(now->hard, least))};
    if (r == 0)
        r = kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &set, 0);
    if (r == 0)
        p->nofile_hard = set.hard > fresh[1] ? fresh[1] + 1 : 0;
    return r;
}

long kr_fd_limit(struct kr_task *t, const u64 fresh[2], u64 old[2]) {
    struct rlimit_pair now;
    kr_lock(&fdtab_lock); /* beyond_limit() changes it for a moment */
    get_limit(&now);
    u64 hard = t->proc->nofile_hard ? KR_MIN(now.hard, t->proc->nofile_hard - 1) : now.hard;
    old[0] = KR_MIN(now.soft, hard);
    old[1] = hard;
    long r = fresh ? change_limit(t->proc, &now, hard, fresh) : 0;
    kr_unlock(&fdtab_lock);
    return r;
}

/* ---- Dynamic numbers ---- */

/* A duplicate of fd at the lowest number that suits us: behind the slots, or as high as the limit of today has one. */
static long dup_lowest(int fd) {
    struct rlimit_pair r;
    long n = beyond_limit(__NR_fcntl, (u64)fd, F_DUPFD_CLOEXEC, SLOT(nslots), ~0ULL);
    if (n >= 0)
        return n;
    get_limit(&r);
    n = beyond_limit(__NR_fcntl, (u64)fd, F_DUPFD_CLOEXEC, choose_base(&r), ~0ULL);
    return n < 0 ? beyond_limit(__NR_fcntl, (u64)fd, F_DUPFD_CLOEXEC, 3, ~0ULL) : n;
}

/* The same at a number that is not in the table. One that is was closed by the payload, by a call that had begun before the number
 * was ours: whoever uses it must not meet another file of ours there, so the placeholder stays. */
static long dup_high(int fd) {
    for (;;) {
        long n = dup_lowest(fd);
        if (n < 0 || !find((u32)n))
            return n;
        if (beyond_limit(__NR_dup3, SPARE, (u64)n, O_CLOEXEC_, (u64)n) < 0)
            return -EMFILE;
    }
}

void kr_fd_hide_begin(void) {
    kr_lock(&fdtab_lock);
    open_range();
}

int kr_fd_hide_end(int fd, int kind, int *holder) {
    long n = fd;
    *holder = -1;
    if (fd >= 0) {
        n = make_room() < 0 ? -ENOMEM : find((u32)fd) ? -EAGAIN : dup_high(fd);
        if (n >= 0) {
            insert((int)n, kind, holder);
            *holder = (int)n;
        }
        if (!in_slots((u32)fd))
            kr_sys1(__NR_close, fd);
    }
    set_range();
    kr_unlock(&fdtab_lock);
    if (fd >= 0 && in_slots((u32)fd))
        kr_slot_free(fd);
    return (int)n;
}

int kr_fd_hide(int fd, int kind, int *holder) {
    kr_fd_hide_begin();
    return kr_fd_hide_end(fd < 0 ? -EBADF : fd, kind, holder);
}

long kr_fd_call(u64 fd, long nr, u64 a, u64 b) {
    kr_lock(&fdtab_lock);
    long n = hidden((u32)fd) ? -EBADF : kr_sys3(nr, (u32)fd, a, b);
    kr_unlock(&fdtab_lock);
    return n;
}

long kr_fd_dup(u64 fd, int cmd, u64 least) { return kr_fd_call(fd, __NR_fcntl, (u64)(s64)cmd, least); }

int kr_fd_pass(u64 fd) {
    kr_lock(&fdtab_lock);
    long n = hidden((u32)fd) ? -EBADF : make_room() < 0 ? -ENOMEM : dup_high((int)fd);
    if (n >= 0) {
        insert((int)n, KR_FD_FORK_DROPS, &passing);
        set_range();
    }
    kr_unlock(&fdtab_lock);
    return (int)n;
}

void kr_fd_passed(int fd) {
    kr_lock(&fdtab_lock);
    struct entry *e = find((u32)fd);
    if (e && e->holder == &passing) {
        kr_sys1(__NR_close, fd);
        forget(e);
        set_range();
    }
    kr_unlock(&fdtab_lock);
}

long kr_fd_dup_onto(u64 fd, u64 to, u64 flags) {
    kr_lock(&fdtab_lock);
    long n = hidden((u32)fd) || hidden((u32)to) ? -EBADF : kr_sys3(__NR_dup3, (u32)fd, (u32)to, flags);
    kr_unlock(&fdtab_lock);
    return n;
}

void kr_fd_drop(int *holder) {
    kr_lock(&fdtab_lock);
    struct entry *e = *holder >= 0 ? find((u32)*holder) : NULL;
    *holder = -1;
    if (e && copies) {
        e->holder = NULL;
    } else if (e) {
        kr_sys1(__NR_close, e->fd);
        forget(e);
        set_range();
    }
    kr_unlock(&fdtab_lock);
}

int kr_fd_hidden(u64 arg) {
    u32 fd = (u32)arg; /* as the kernel reads it */
    if (in_block(fd))
        return 1;
    if (fd < __atomic_load_n(&lowest, __ATOMIC_ACQUIRE) || fd > __atomic_load_n(&highest, __ATOMIC_ACQUIRE))
        return 0;
    kr_lock(&fdtab_lock);
    int is = find(fd) != NULL;
    kr_unlock(&fdtab_lock);
    return is;
}

/* close_range(2) around the dynamic numbers; fdtab_lock is held. */
static long close_between(u64 first, u64 last, u64 flags) {
    u64 at = first;
    long ret = 0;
    if (first > last)
        return 0;
    for (u32 i = bound((u32)first); i < count && (u32)tab[i].fd <= last && ret == 0; i++) {
        if ((u32)tab[i].fd > at)
            ret = kr_sys3(__NR_close_range, at, (u32)tab[i].fd - 1, flags);
        at = (u64)(u32)tab[i].fd + 1;
    }
    if (ret == 0 && at <= last)
        ret = kr_sys3(__NR_close_range, at, last, flags);
    return ret;
}

long kr_fd_close_range(u64 first64, u64 last64, u64 flags) {
    u32 first = (u32)first64, last = (u32)last64;
    if ((u32)flags & ~(u32)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) || first > last)
        return -EINVAL;
    u64 end = SLOT(nslots); /* behind the block */
    kr_lock(&fdtab_lock);
    long ret = first < base ? close_between(first, KR_MIN(last, base - 1), flags) : 0;
    if (ret == 0 && last >= end)
        ret = close_between(KR_MAX(first, end), last, flags);
    kr_unlock(&fdtab_lock);
    return ret;
}

int kr_fd_list(int *out, int max) {
    kr_lock(&fdtab_lock);
    for (u32 i = 0; i < count && (int)i < max; i++)
        out[i] = tab[i].fd;
    int n = (int)count;
    kr_unlock(&fdtab_lock);
    return n;
}

void kr_fd_copy_begin(const void *child) {
    kr_lock(&fdtab_lock);
    copies++;
    __atomic_store_n(&copying, child, __ATOMIC_RELEASE);
}

void kr_fd_copy_made(const void *child) {
    const void *is = child;
    if (__atomic_compare_exchange_n(&copying, &is, NULL, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        kr_unlock(&fdtab_lock);
}

void kr_fd_copy_stays(void) {
    kr_lock(&fdtab_lock);
    copies++;
    kr_unlock(&fdtab_lock);
}

void kr_fd_copy_end(void) {
    kr_lock(&fdtab_lock);
    if (copies)
        copies--;
    for (u32 i = count; i-- > 0 && !copies;)
        if (!tab[i].holder) {
            kr_sys1(__NR_close, tab[i].fd);
            forget(&tab[i]);
        }
    set_range();
    kr_unlock(&fdtab_lock);
}

void kr_fd_before_fork(void) { kr_lock(&fdtab_lock); }

void kr_fd_fork_parent(void) { kr_unlock(&fdtab_lock); }

void kr_fd_after_fork(void) {
    kr_lock_init(&fdtab_lock);
    copies = 0;
    copying = NULL;
    u32 kept = 0;
    for (u32 i = 0; i < count; i++) {
        if (tab[i].holder && tab[i].kind != KR_FD_FORK_DROPS) {
            tab[kept++] = tab[i];
            continue;
        }
        kr_sys1(__NR_close, tab[i].fd);
        if (tab[i].holder)
            *tab[i].holder = -1;
    }
    count = kept;
    set_range();
    /* What other threads of the parent were judging. */
    for (u32 i = 0; i < nslots && busy; i++)
        if (busy >> i / GROUP & 1)
            fill(i);
    busy = waiting = 0;
}
