/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own descriptors among the payload's.
 *
 * State: a table sorted by number. Lock: fdtab_lock (innermost but heap_lock). Any thread may call.
 *
 * Where they go: above the soft RLIMIT_NOFILE, where the payload gets no number by itself, as long as that is
 * not far up (the kernel copies a descriptor table up to its highest open number at every fork); else a
 * little below it. Not right at the limit: there are those who raise it by a few to have numbers out of their
 * own program's way (valgrind: by ten).
 *
 * A number is only forgotten while nobody has a private copy of the kernel's descriptor table (vfork
 * children): such a copy would still hold our file under the forgotten number, in the payload's reach. Until
 * then it is a ghost: ours, without a holder.
 */
#include "fdtab.h"
#include <linux/fcntl.h>
#include <linux/resource.h>
#include <linux/close_range.h>

#define HIGHEST_BASE 4096u /* do not place above this by choice */
#define ROOM_BELOW 64u     /* distance from the limit when we must stay below it */
#define ROOM_ABOVE 64u     /* and otherwise */

struct entry {
    int fd;
    int cloexec;
    int *holder; /* NULL: a ghost */
};

static struct kr_lock fdtab_lock;
static struct entry *tab;
static u32 count, room;
static u32 copies; /* private copies of the descriptor table that live */
/* Every hidden number lies in [lowest, highest]. While a number is being made (before it is known) the range
 * is everything, so that readers wait for the lock. */
static u32 lowest = ~0u, highest;

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

static void insert(int fd, int cloexec, int *holder) {
    u32 i = bound((u32)fd);
    memmove(&tab[i + 1], &tab[i], (count - i) * sizeof *tab);
    tab[i] = (struct entry){fd, cloexec, holder};
    count++;
}

static void forget(struct entry *e) {
    memmove(e, e + 1, (size_t)(&tab[count] - (e + 1)) * sizeof *tab);
    count--;
}

static u32 choose_base(const struct rlimit_pair *r) {
    if (r->soft <= HIGHEST_BASE && r->hard >= r->soft + 2 * ROOM_ABOVE)
        return (u32)r->soft + ROOM_ABOVE;
    u32 top = r->soft < HIGHEST_BASE ? (u32)r->soft : HIGHEST_BASE;
    return top > 2 * ROOM_BELOW ? top - ROOM_BELOW : top / 2;
}

/* A duplicate of fd at a number that suits us. */
static long dup_high(int fd, int cloexec) {
    int cmd = cloexec ? F_DUPFD_CLOEXEC : F_DUPFD;
    struct rlimit_pair r = {1024, 1024};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &r);
    u32 base = choose_base(&r);
    long n;
    if (base >= r.soft) {
        /* The kernel gives no number at or above the soft limit: raise it for a moment. */
        struct rlimit_pair up = {r.hard, r.hard};
        kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &up, 0);
        n = kr_sys3(__NR_fcntl, fd, cmd, base);
        kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, &r, 0);
    } else {
        n = kr_sys3(__NR_fcntl, fd, cmd, base);
    }
    if (n < 0) /* no number up there: as high as there is one */
        n = kr_sys3(__NR_fcntl, fd, cmd, base / 2);
    if (n < 0)
        n = kr_sys3(__NR_fcntl, fd, cmd, 3);
    return n;
}

void kr_fd_hide_begin(void) {
    kr_lock(&fdtab_lock);
    open_range();
}

int kr_fd_hide_end(int fd, int cloexec, int *holder) {
    long n = fd;
    *holder = -1;
    if (fd < 0) {
        set_range();
        kr_unlock(&fdtab_lock);
        return fd;
    }
    if (make_room() < 0) {
        n = -ENOMEM;
    } else {
        /* After an execve our numbers are up there already. */
        struct rlimit_pair r = {1024, 1024};
        kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &r);
        if ((u32)fd >= choose_base(&r) && !find((u32)fd)) {
            n = kr_sys3(__NR_fcntl, fd, F_SETFD, cloexec ? FD_CLOEXEC : 0);
            n = n < 0 ? n : fd;
        } else {
            n = dup_high(fd, cloexec);
        }
    }
    if (n >= 0) {
        insert((int)n, cloexec, holder);
        *holder = (int)n;
    }
    if (n != fd)
        kr_sys1(__NR_close, fd);
    set_range();
    kr_unlock(&fdtab_lock);
    return (int)n;
}

int kr_fd_hide(int fd, int cloexec, int *holder) {
    kr_fd_hide_begin();
    return kr_fd_hide_end(fd < 0 ? -EBADF : fd, cloexec, holder);
}

long kr_fd_dup(u64 fd, int cmd, u64 least) {
    kr_lock(&fdtab_lock);
    long n = find((u32)fd) ? -EBADF : kr_sys3(__NR_fcntl, (u32)fd, cmd, least);
    kr_unlock(&fdtab_lock);
    return n;
}

long kr_fd_dup_onto(u64 fd, u64 to, u64 flags) {
    kr_lock(&fdtab_lock);
    long n = find((u32)fd) ? -EBADF : find((u32)to) ? -EBUSY : kr_sys3(__NR_dup3, (u32)fd, (u32)to, flags);
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
    if (fd < __atomic_load_n(&lowest, __ATOMIC_ACQUIRE) || fd > __atomic_load_n(&highest, __ATOMIC_ACQUIRE))
        return 0;
    kr_lock(&fdtab_lock);
    int is = find(fd) != NULL;
    kr_unlock(&fdtab_lock);
    return is;
}

int kr_fd_evict(int fd) {
    int ret = 0;
    if (!kr_fd_hidden((u32)fd))
        return 0;
    kr_lock(&fdtab_lock);
    open_range();
    struct entry *e = find((u32)fd);
    if (!e) {
        ret = 0;
    } else if (copies) {
        ret = -EBUSY; /* what dup2(2) gives when it meets an open() in flight */
    } else {
        struct entry was = *e;
        long n = dup_high(fd, was.cloexec);
        if (n < 0) {
            ret = (int)n;
        } else {
            forget(e);
            insert((int)n, was.cloexec, was.holder);
            if (was.holder)
                __atomic_store_n(was.holder, (int)n, __ATOMIC_RELEASE);
            /* Closed here, not by the payload's dup2, which may fail and would leave our file to it. */
            kr_sys1(__NR_close, fd);
        }
    }
    set_range();
    kr_unlock(&fdtab_lock);
    return ret;
}

long kr_fd_close_range(u64 first64, u64 last64, u64 flags) {
    u32 first = (u32)first64, last = (u32)last64;
    if ((u32)flags & ~(u32)(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) || first > last)
        return -EINVAL;
    if (!count || first > highest || last < lowest)
        return kr_sys3(__NR_close_range, first, last, flags);
    long ret = 0;
    kr_lock(&fdtab_lock);
    u64 at = first;
    for (u32 i = bound(first); i < count && (u32)tab[i].fd <= last && ret == 0; i++) {
        if ((u32)tab[i].fd > at)
            ret = kr_sys3(__NR_close_range, at, (u32)tab[i].fd - 1, flags);
        at = (u64)(u32)tab[i].fd + 1;
    }
    if (ret == 0 && at <= last)
        ret = kr_sys3(__NR_close_range, at, last, flags);
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

void kr_fd_copy_begin(void) {
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
    u32 kept = 0;
    for (u32 i = 0; i < count; i++) {
        if (tab[i].holder && tab[i].cloexec != KR_FD_FORK_DROPS) {
            tab[kept++] = tab[i];
            continue;
        }
        kr_sys1(__NR_close, tab[i].fd);
        if (tab[i].holder)
            *tab[i].holder = -1;
    }
    count = kept;
    set_range();
}
