/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the monitor's dynamic descriptors: the VM, its vCPUs, the program. Any thread may call.
 *
 * State: the table, sorted by number, under fdtab_lock. Only heap_lock may be taken inside fdtab_lock.
 *
 * A dynamic number is forgotten only while no process has a private copy of the kernel's descriptor table (a
 * vfork child has one). Such a copy would still hold the monitor's file under the forgotten number, and the
 * payload could reach the file. Until the copies are gone, the number stays in the table without a holder: it
 * is a ghost.
 */
#include "fdplace.h"
#include "mm.h"
#include <linux/close_range.h>

struct entry {
    int fd;
    int kind;
    int *holder; /* NULL: a ghost */
};

static struct kr_lock fdtab_lock;
static struct entry *tab;
static u32 count, room;
static u32 copies;   /* private copies of the descriptor table that live */
static u32 changing; /* the table is half changed; for an heir of the lock */
static int passing;  /* holder of what kr_fd_pass makes */
static int making;   /* holder of what a call makes for itself (kr_fd_made) */
static int plug;     /* holder of plugs (fdname.c) */
u32 kr_fd_plugs;     /* how many there are */
/* Every number of the table lies in [lowest, highest]. While a descriptor is being made its number is not
 * known: the range is everything then, so that readers wait for the lock. */
static u32 lowest = ~0u, highest;

void kr_fdtab_hold(void) { kr_lock(&fdtab_lock); }

void kr_fdtab_release(void) { kr_unlock(&fdtab_lock); }

static void set_range(void) {
    __atomic_store_n(&highest, count ? (u32)tab[count - 1].fd : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&lowest, count ? (u32)tab[0].fd : ~0u, __ATOMIC_RELEASE);
}

static void open_range(void) {
    __atomic_store_n(&lowest, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&highest, ~0u, __ATOMIC_SEQ_CST);
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

/* Whether e is hidden from the calling task. A plug is not where the task has a descriptor table of its own (a vfork
 * child): there it is a harmless copy, and the child may put a descriptor of its own at the number. It can stay for
 * long, because a close(2) that names the number can wait for a file system or a peer. */
static int hides(const struct entry *e) { return e && (e->holder != &plug || kr_files_shared(kr_self())); }

int kr_fd_hidden_locked(u32 fd) { return kr_fd_in_block(fd) || hides(find(fd)); }

int kr_fd_in_table(u32 fd) { return find(fd) != NULL; }

static void begin_change(void) { __atomic_store_n(&changing, 1, __ATOMIC_SEQ_CST); }
static void end_change(void) { __atomic_store_n(&changing, 0, __ATOMIC_SEQ_CST); }

void kr_fd_heir(const struct kr_lock *l) {
    if (l == &fdtab_lock && (changing || (!lowest && highest == ~0u)))
        kr_die(
            "a process that shares this process's memory (CLONE_VM) was killed while it made a descriptor: "
            "nobody knows which numbers are the monitor's");
}

static int make_room(void) {
    if (count < room)
        return 0;
    u32 more = room ? room * 2 : 32;
    begin_change();
    struct entry *p = kr_realloc(tab, room * sizeof *tab, more * sizeof *tab);
    if (p) {
        tab = p;
        room = more;
    }
    end_change();
    return p ? 0 : -ENOMEM;
}

static void insert(int fd, int kind, int *holder) {
    u32 i = bound((u32)fd);
    begin_change();
    memmove(&tab[i + 1], &tab[i], (count - i) * sizeof *tab);
    tab[i] = (struct entry){fd, kind, holder};
    count++;
    end_change();
}

static void forget(struct entry *e) {
    begin_change();
    memmove(e, e + 1, (size_t)(&tab[count] - (e + 1)) * sizeof *tab);
    count--;
    end_change();
}

int kr_fd_enter_plug(u32 fd) {
    int r = make_room();
    if (r == 0) {
        insert((int)fd, KR_FD_FORK_DROPS, &plug);
        __atomic_add_fetch(&kr_fd_plugs, 1, __ATOMIC_RELAXED);
    }
    return r;
}

/* Removes the plugs that no call names as what it closes or replaces: only such a call could still take one away. */
static void drop_plugs(const struct kr_mm *mm) {
    for (u32 i = count; i-- > 0;)
        if (tab[i].holder == &plug && !kr_fd_named(mm, (u32)tab[i].fd, 1)) {
            kr_fd_unplug((u32)tab[i].fd);
            forget(&tab[i]);
            __atomic_sub_fetch(&kr_fd_plugs, 1, __ATOMIC_RELAXED);
        }
}

void kr_fd_drop_plugs(struct kr_task *t) {
    kr_lock(&t->mm->lock);
    kr_lock(&fdtab_lock);
    drop_plugs(t->mm);
    set_range();
    kr_unlock(&fdtab_lock);
    kr_unlock(&t->mm->lock);
}

static void end_section(const struct kr_mm *mm) {
    drop_plugs(mm);
    set_range();
    kr_unlock(&fdtab_lock);
}

void kr_fd_hide_begin(const struct kr_mm *mm) {
    kr_lock(&fdtab_lock);
    open_range();
    kr_fd_plug_named(mm); /* without memory: kr_fd_hide_end finds out */
}

int kr_fd_hide_end(const struct kr_mm *mm, int fd, int kind, int *holder) {
    long n = fd;
    holder = holder ? holder : &making;
    *holder = -1;
    if (fd >= 0) {
        n = find((u32)fd) || kr_fd_named(mm, (u32)fd, 0) ? -EAGAIN : kr_fd_dup_unnamed(mm, fd);
        if (n >= 0 && make_room() < 0) {
            kr_sys1(__NR_close, n);
            n = -ENOMEM;
        }
        if (n >= 0) {
            insert((int)n, kind, holder);
            *holder = (int)n;
        }
        if (!kr_fd_in_slots((u32)fd))
            kr_sys1(__NR_close, fd);
    }
    end_section(mm);
    if (fd >= 0 && kr_fd_in_slots((u32)fd))
        kr_slot_free(fd);
    return (int)n;
}

long kr_fd_hide_slot(const struct kr_mm *mm, int fd, u32 slot) {
    long n = fd;
    if (fd >= 0) {
        n = find((u32)fd) || kr_fd_named(mm, (u32)fd, 0)
                ? -EAGAIN
                : kr_fd_beyond_limit(__NR_dup3, (u32)fd, slot, O_CLOEXEC, slot);
        kr_sys1(__NR_close, fd);
    }
    end_section(mm);
    return n == -EBADF ? -EMFILE : n; /* the slot lies beyond the hard limit */
}

int kr_fd_hide(int fd, int kind, int *holder) {
    kr_fd_hide_begin(NULL);
    return kr_fd_hide_end(NULL, fd < 0 ? -EBADF : fd, kind, holder);
}

long kr_fd_call(u64 fd, long nr, u64 a, u64 b) {
    kr_lock(&fdtab_lock);
    long n = kr_fd_hidden_locked((u32)fd) ? -EBADF : kr_sys3(nr, (u32)fd, a, b);
    kr_unlock(&fdtab_lock);
    return n;
}

long kr_fd_dup(u64 fd, int cmd, u64 least) { return kr_fd_call(fd, __NR_fcntl, (u64)(s64)cmd, least); }

static int hidden_copy(struct kr_mm *mm, u32 fd, int is_slot) {
    kr_lock(&mm->lock);
    kr_lock(&fdtab_lock);
    open_range();
    long n = !is_slot && kr_fd_hidden_locked(fd) ? -EBADF : kr_fd_dup_unnamed(mm, (int)fd);
    if (n >= 0 && make_room() < 0) {
        kr_sys1(__NR_close, n);
        n = -ENOMEM;
    }
    if (n >= 0)
        insert((int)n, KR_FD_FORK_DROPS, &passing);
    end_section(mm);
    kr_unlock(&mm->lock);
    return (int)n;
}

int kr_fd_pass(struct kr_mm *mm, u64 fd) { return hidden_copy(mm, (u32)fd, 0); }

void kr_slot_free_slow(struct kr_task *t, int fd) {
    int copy = fd >= 0 && kr_fd_in_slots((u32)fd) ? hidden_copy(t->mm, (u32)fd, 1) : -1;
    kr_slot_free(fd);
    if (copy >= 0)
        kr_fd_passed(copy);
}

static struct entry *find_passing(int fd) {
    struct entry *e = find((u32)fd);
    return e && e->holder == &passing ? e : NULL;
}

void kr_fd_passed(int fd) {
    kr_lock(&fdtab_lock);
    int is = find_passing(fd) != NULL;
    kr_unlock(&fdtab_lock);
    if (!is)
        return;
    /* If it is the file's last descriptor, its close may wait: no lock is held. The plug comes in its place, so that the number is
     * nobody else's and in no listing for as long as it is in the table. */
    long n = kr_sys3(__NR_dup3, KR_FD_PLUG, fd, O_CLOEXEC);
    kr_lock(&fdtab_lock);
    struct entry *e = find_passing(fd);
    if (e && n >= 0)
        kr_sys1(__NR_close, fd);
    if (e) {
        forget(e);
        set_range();
    }
    kr_unlock(&fdtab_lock);
    if (e && n < 0) /* beyond the soft limit, where dup3 gives no number */
        kr_fd_shut(fd);
}

long kr_fd_dup_onto(u64 fd, u64 to, u64 flags) {
    kr_lock(&fdtab_lock);
    long n = kr_fd_hidden_locked((u32)fd) || kr_fd_hidden_locked((u32)to)
                 ? -EBADF
                 : kr_sys3(__NR_dup3, (u32)fd, (u32)to, flags);
    kr_unlock(&fdtab_lock);
    return n;
}

static void drop(struct entry *e) {
    if (copies) {
        e->holder = NULL;
    } else {
        kr_sys1(__NR_close, e->fd);
        forget(e);
        set_range();
    }
}

void kr_fd_drop(int *holder) {
    kr_lock(&fdtab_lock);
    struct entry *e = *holder >= 0 ? find((u32)*holder) : NULL;
    *holder = -1;
    if (e)
        drop(e);
    kr_unlock(&fdtab_lock);
}

void kr_fd_made(int fd) {
    kr_lock(&fdtab_lock);
    struct entry *e = find((u32)fd);
    if (e && e->holder == &making)
        drop(e);
    kr_unlock(&fdtab_lock);
}

static int in_range(u32 fd) {
    return fd >= __atomic_load_n(&lowest, __ATOMIC_SEQ_CST) &&
           fd <= __atomic_load_n(&highest, __ATOMIC_SEQ_CST);
}

int kr_fd_hidden(u64 arg) {
    u32 fd = (u32)arg; /* the kernel reads 32 bits, too */
    if (kr_fd_in_block(fd) || !in_range(fd))
        return kr_fd_in_block(fd);
    kr_lock(&fdtab_lock);
    int is = hides(find(fd));
    kr_unlock(&fdtab_lock);
    return is;
}

int kr_fd_listed(u64 fd) { return !kr_fd_hidden(fd) && kr_sys2(__NR_fcntl, (u32)fd, F_GETFD) >= 0; }

int kr_fd_name(struct kr_task *t, u32 i, u64 arg) {
    u32 fd = (u32)arg;
    if (kr_fd_in_block(fd))
        return 0;
    if (!kr_files_shared(t))
        return !kr_fd_hidden(fd);
    /* Either this load sees the range that open_range() has stored, or kr_fd_named() sees the number: both
     * sides store before they load, with a full barrier between the two. */
    __atomic_store_n(&t->named[i], fd + 1, __ATOMIC_SEQ_CST);
    if (!in_range(fd))
        return 1;
    __atomic_store_n(&t->named[i], 0, __ATOMIC_SEQ_CST);
    kr_lock(&fdtab_lock);
    struct entry *e = find(fd);
    if (e && e->holder == &plug) {
        kr_unlock(&fdtab_lock);
        kr_fd_drop_plugs(t);
        kr_lock(&fdtab_lock);
        e = find(fd);
    }
    if (!e)
        __atomic_store_n(&t->named[i], fd + 1, __ATOMIC_SEQ_CST);
    kr_unlock(&fdtab_lock);
    return !e;
}

void kr_fd_shut(long fd) {
    if (fd < 0)
        return;
    u32 *name = &kr_self()->named[KR_NAMED_SHUT];
    __atomic_store_n(name, (u32)fd + 1, __ATOMIC_SEQ_CST); /* as in kr_fd_name */
    int is = kr_fd_hidden((u64)fd);
    if (!is)
        kr_sys1(__NR_close, fd);
    __atomic_store_n(name, 0, __ATOMIC_RELEASE);
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
    u64 end = KR_FD_BEHIND;
    kr_lock(&fdtab_lock);
    long ret = first < kr_fd_block.base ? close_between(first, KR_MIN(last, kr_fd_block.base - 1), flags) : 0;
    if (ret == 0 && last >= end)
        ret = close_between(KR_MAX(first, end), last, flags);
    kr_unlock(&fdtab_lock);
    return ret;
}

u32 kr_fd_hidden_count(void) { return kr_fd_block.span + (u32)kr_fd_list(NULL, 0); }

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
}

void kr_fd_copy_made(u64 parent) { kr_unlock_of(&fdtab_lock, parent); }

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
    u32 kept = 0;
    for (u32 i = 0; i < count; i++) {
        if (tab[i].holder && tab[i].kind != KR_FD_FORK_DROPS) {
            tab[kept++] = tab[i];
            continue;
        }
        if (tab[i].holder == &plug) /* a task with a copy of the table may have put a file of its own there */
            kr_fd_unplug((u32)tab[i].fd);
        else
            kr_sys1(__NR_close, tab[i].fd);
        if (tab[i].holder)
            *tab[i].holder = -1;
    }
    count = kept;
    kr_fd_plugs = 0;
    set_range();
    kr_fd_slots_after_fork();
}
