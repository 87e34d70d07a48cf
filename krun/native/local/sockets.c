/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of owned sockets, and when their state is brought up to date: see sockets.h.
 *
 * Which calls leave a socket in the table is a list (keeps). Any other call that names it takes it out for good: dup, SCM_RIGHTS,
 * F_DUPFD, O_ASYNC, options like TCP_ULP and SO_PEEK_OFF, MSG_ZEROCOPY, and whatever future kernels add. So does
 * every fork and every child with this memory (all sockets), and every call of another thread.
 *
 * State and lock: sockets.h.
 */
#include "sockets.h"
#include "../filter/seccomp.h"
#include "../lib/kr_linux.h"
#include "../machine/above.h"
#include "../machine/fdtab.h"
#include "../machine/usercopy.h"
#include "../process/process.h"
#include <asm/ioctls.h>
#include <linux/fcntl.h>

_Static_assert(KR_LOCAL_MEMORY_END == KR_WINDOW_END, "guest/callpage.h");
_Static_assert(KR_WAY_READ == 4 && KR_WAY_QUEUE == 5 && KR_WAY_FILE == 6, "engine.S");

#define MEDDLED_PAUSE 50000 /* ns between two kicks of the holder */

#define AF_UNSPEC 0
#define MSG_ZEROCOPY 0x4000000
#define MSG_FASTOPEN 0x20000000
#define O_ASYNC 0x2000

/* ---- one socket ---- */

void kr_socket_clear(struct kr_sockets *k, u32 fd) {
    struct kr_socket *s = &k->s[fd];
    struct kr_sock_entry *e = &k->area->entry[fd];
    if (s->credit)
        k->credits--;
    s->len = s->credit = 0;
    e->len = e->whole = e->credit = 0;
}

void kr_socket_abort(struct kr_sockets *k, u32 fd) {
    u16 none[8] = {AF_UNSPEC};
    kr_sys3(__NR_connect, fd, none, sizeof none); /* resets it */
    kr_socket_clear(k, fd);
    k->s[fd].owned = 0;
    k->s[fd].error = ECONNRESET;
}

int kr_socket_live(struct kr_sockets *k, u32 fd) {
    if (k->s[fd].live)
        return 1;
    if (k->nlive == KR_SOCKETS_LIVE)
        return 0;
    k->live[k->nlive++] = (u16)fd;
    k->s[fd].live = 1;
    return 1;
}

static void disown(struct kr_sockets *k, u32 fd) {
    kr_socket_clear(k, fd);
    k->s[fd].owned = 0;
}

/* Takes what the guest's code has done. own: the holder is not in the guest. */
static void settle(struct kr_sockets *k, int own) {
    for (u32 i = 0; i < k->nlive; i++)
        if (k->s[k->live[i]].len)
            kr_socket_take(k, k->live[i]);
    kr_queue_flush(k, own);
}

static void forget_all_locked(struct kr_sockets *k) {
    for (u32 fd = 0; fd < KR_SOCK_FDS; fd++)
        if (k->s[fd].owned)
            disown(k, fd);
}

/* Bytes and credit of all sockets end. What was read has been taken. */
static void drop_live(struct kr_sockets *k) {
    for (u32 i = 0; i < k->nlive; i++) {
        kr_socket_clear(k, k->live[i]);
        k->s[k->live[i]].live = 0;
    }
    k->nlive = k->data_used = 0;
}

struct kr_sockets *kr_sockets_of(const struct kr_task *t) {
    struct kr_sockets *k = __atomic_load_n(&t->mm->sockets, __ATOMIC_ACQUIRE);
    return k && __atomic_load_n(&k->proc, __ATOMIC_ACQUIRE) == t->proc ? k : NULL;
}

/* Waits until the holder, another thread, has left the guest since now: nothing of its code is under way then that began
 * before. Called and returns with the lock held. */
static void wait_for_turn(struct kr_sockets *k) {
    u32 seen = k->turns;
    while (k->holder && k->inside && k->turns == seen) {
        const s64 moment[2] = {0, MEDDLED_PAUSE};
        kr_quiesce_kick(k->holder);
        kr_unlock(&k->lock);
        kr_sys2(__NR_nanosleep, moment, 0);
        kr_lock(&k->lock);
    }
}

/* ---- the run loop ---- */

void kr_sockets_enter(struct kr_task *t) {
    struct kr_sockets *k = kr_sockets_of(t);
    if (!k || !k->holder)
        return;
    kr_lock(&k->lock);
    if (t == k->holder) {
        k->inside = 1;
        k->turns++;
        /* A call that is executed again would be interrupted by the timer again and again. */
        int may = k->credits && kr_window_closed(&t->window) && !t->resumed && kr_queue_bounded(t);
        k->area->limit = may ? KR_SOCK_QUEUE_SIZE : 0;
        if (k->nlive && kr_window_closed(&t->window))
            kr_sockets_fresh(k);
        kr_file_offer(k);
        kr_accepted_offer(k);
    } else { /* a call that began before the holder looked may have told the thread of more bytes */
        for (u32 i = 0; i < k->nlive; i++)
            k->area->entry[k->live[i]].whole = 0;
    }
    kr_unlock(&k->lock);
}

void kr_sockets_left(struct kr_task *t) {
    struct kr_sockets *k = kr_sockets_of(t);
    if (!k || !k->holder)
        return;
    kr_lock(&k->lock);
    if (t == k->holder) {
        k->inside = 0;
        k->turns++;
    }
    settle(k, !k->inside);
    kr_file_forget(k);
    kr_unlock(&k->lock);
}

static int is_wait(u64 nr) {
    switch ((u32)nr) {
    case __NR_poll:
    case __NR_ppoll:
    case __NR_select:
    case __NR_pselect6:
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
        return 1;
    }
    return 0;
}

void kr_sockets_call(struct kr_task *t) {
    const struct kr_sys_row *row = kr_sys_row((u32)t->nr);
    struct kr_sockets *k = kr_sockets_of(t);
    if (row && row->attr & KR_CALL_BLOCK && !kr_file_at_once((u32)t->nr, t->args))
        kr_queue_unbound(t); /* execve, too: the next monitor knows no such signal */
    if (k->meddled >=
        KR_SOCKETS_MEDDLED) { /* its sockets go from thread to thread: no thread pays for the table any more */
        kr_queue_unbound(t);
        kr_sockets_release(t);
        __atomic_add_fetch(&t->local.generation, 1, __ATOMIC_RELEASE);
        return;
    }
    kr_lock(&k->lock);
    t->local.clones = k->clones;
    t->local.guesses = __atomic_load_n(&k->guesses, __ATOMIC_RELAXED);
    kr_file_call(k, (u32)t->nr, t->args);
    kr_accepted_call(k, (u32)t->nr, t->args);
    if (is_wait(t->nr))
        drop_live(k);
    kr_unlock(&k->lock);
}

/* ---- calls that name a descriptor ---- */

static int keeps_option(u32 level, u32 name) {
    static const struct {
        u8 level, name;
    } plain[] = {
        {1, 2},   {1, 7},  {1, 8},   {1, 9}, {1, 13},
        {1, 15},  {1, 20}, {1, 21}, /* SO_REUSEADDR SNDBUF RCVBUF KEEPALIVE LINGER
                                                                              REUSEPORT RCVTIMEO SNDTIMEO */
        {6, 1},   {6, 3},  {6, 4},   {6, 5}, {6, 6},
        {6, 9},   {6, 12}, {6, 18},  /* TCP_NODELAY CORK KEEPIDLE KEEPINTVL KEEPCNT
                                                                            DEFER_ACCEPT QUICKACK USER_TIMEOUT */
        {41, 26}, {0, 1},  {41, 67}, /* IPV6_V6ONLY, IP_TOS, IPV6_TCLASS */
    };
    for (size_t i = 0; i < KR_COUNT(plain); i++)
        if (plain[i].level == level && plain[i].name == name)
            return 1;
    return 0;
}

/* Whether a socket stays in the table though the call names it. */
static int keeps(struct kr_socket *s, u32 nr, const u64 a[6]) {
    switch (nr) {
    case __NR_read:
    case __NR_write:
    case __NR_readv:
    case __NR_writev:
    case __NR_recvfrom:
    case __NR_recvmsg:
    case __NR_sendfile:
    case __NR_epoll_ctl:
    case __NR_fstat:
    case __NR_bind:
    case __NR_listen:
    case __NR_connect:
    case __NR_accept:
    case __NR_accept4:
    case __NR_getsockname:
    case __NR_getpeername:
    case __NR_getsockopt:
        return 1;
    case __NR_sendto:
        return !(a[3] & (MSG_ZEROCOPY | MSG_FASTOPEN));
    case __NR_sendmsg: /* SCM_RIGHTS: kr_sockets_passed */
        return !(a[2] & (MSG_ZEROCOPY | MSG_FASTOPEN));
    case __NR_setsockopt:
        return keeps_option((u32)a[1], (u32)a[2]);
    case __NR_fcntl:
        s->nonblock = 2;
        return a[1] == F_GETFD || a[1] == F_SETFD || a[1] == F_GETFL ||
               (a[1] == F_SETFL && !(a[2] & O_ASYNC));
    case __NR_ioctl:
        s->nonblock = 2;
        return a[1] == FIONREAD || a[1] == FIONBIO || a[1] == FIOCLEX || a[1] == FIONCLEX;
    }
    return 0;
}

/* Whether the call makes another descriptor of a file that it names, or puts one at the number. */
static int makes_copy(u32 nr, const u64 a[6]) {
    return nr == __NR_dup || nr == __NR_dup2 || nr == __NR_dup3 ||
           (nr == __NR_fcntl && ((u32)a[1] == F_DUPFD || (u32)a[1] == F_DUPFD_CLOEXEC));
}

/* Another thread than the holder names owned sockets: they are out of the table when this returns. */
static void meddle(struct kr_sockets *k, u32 first, u32 last) {
    for (u32 fd = first; fd <= last; fd++)
        if (k->s[fd].owned) { /* the guest's code answers no more; what it has begun is still taken */
            k->s[fd].owned = 2;
            k->area->entry[fd].len = k->area->entry[fd].credit = 0;
        }
    wait_for_turn(k);
    settle(k, !k->inside);
    for (u32 fd = first; fd <= last; fd++)
        if (k->s[fd].owned == 2)
            disown(k, fd);
    k->meddled++;
}

/* Another thread than the holder may copy what is at a number that is not owned. A call of the holder's may be about to make a
 * socket there. */
static void guess(struct kr_sockets *k, u32 fd) {
    __atomic_store_n(&k->s[fd].guess, __atomic_add_fetch(&k->guesses, 1, __ATOMIC_RELAXED), __ATOMIC_SEQ_CST);
}

void kr_sockets_named(struct kr_task *t, u64 number, const u64 a[6]) {
    struct kr_sockets *k = kr_sockets_of(t);
    u32 fd = (u32)number, nr = (u32)t->nr;
    if (k && t == k->holder && ((k->file.known && k->file.known - 1 == fd) || kr_accepted_named(k, fd)))
        t->local.named_own = 1;
    if (!k || fd >= KR_SOCK_FDS)
        return;
    if (t != k->holder && !k->s[fd].owned && makes_copy(nr, a))
        guess(k, fd);
    if (!k->s[fd].owned && !k->s[fd].error)
        return;
    kr_lock(&k->lock);
    struct kr_socket *s = &k->s[fd];
    if (nr == __NR_close || ((nr == __NR_dup2 || nr == __NR_dup3) && fd == (u32)a[1]))
        s->error = 0; /* another file gets the number */
    if (s->owned && t != k->holder) {
        meddle(k, fd, fd);
    } else if (s->owned) {
        t->local.named_own |= nr != __NR_getsockname && nr != __NR_fcntl && nr != __NR_ioctl; /* accepted.c */
        if (nr == __NR_read || nr == __NR_recvfrom)
            kr_socket_missed(k, fd);
        if (keeps(s, nr, a))
            kr_socket_clear(k, fd);
        else
            disown(k, fd);
    }
    kr_unlock(&k->lock);
}

void kr_sockets_passed(struct kr_task *t, u64 number) {
    struct kr_sockets *k = kr_sockets_of(t);
    u32 fd = (u32)number;
    if (!k || fd >= KR_SOCK_FDS)
        return;
    kr_lock(&k->lock);
    if (k->s[fd].owned && t != k->holder)
        meddle(k, fd, fd);
    else if (k->s[fd].owned)
        disown(k, fd);
    else if (t != k->holder)
        guess(k, fd);
    kr_unlock(&k->lock);
}

void kr_sockets_copied(struct kr_task *t, u64 number) {
    if (t->mm->sockets)
        kr_sockets_passed(t, number);
}

void kr_sockets_forget(struct kr_task *t) {
    struct kr_sockets *k = kr_sockets_of(t);
    if (!k)
        return;
    kr_lock(&k->lock);
    if (t != k->holder)
        meddle(k, 0, KR_SOCK_FDS - 1);
    else
        forget_all_locked(k);
    for (u32 fd = 0; fd < KR_SOCK_FDS && (u32)t->nr == __NR_close_range; fd++)
        k->s[fd].error = 0;
    kr_unlock(&k->lock);
}

/* A process that is made has copies of the descriptors of its moment: also of one that a call of the holder's has just made,
 * and that is not in the table yet. */
void kr_sockets_clone(struct kr_task *t, int begins) {
    struct kr_sockets *k = t->mm->sockets ? kr_sockets_of(t) : NULL; /* none in the child */
    if (!k)
        return;
    kr_lock(&k->lock);
    k->cloning += begins ? 1u : ~0u;
    k->clones++;
    kr_unlock(&k->lock);
    if (begins)
        kr_sockets_forget(t);
}

/* ---- the holder comes and goes ---- */

static const struct {
    u16 nr;
    u8 way, index;
} calls[] = {
    {__NR_read, KR_WAY_READ, 0},       {__NR_recvfrom, KR_WAY_READ, 1}, {__NR_write, KR_WAY_QUEUE, 0},
    {__NR_sendto, KR_WAY_QUEUE, 1},    {__NR_writev, KR_WAY_QUEUE, 2},  {__NR_fstat, KR_WAY_FILE, 0},
    {__NR_newfstatat, KR_WAY_FILE, 1}, {__NR_close, KR_WAY_FILE, 2},    {__NR_sendfile, KR_WAY_FILE, 3},
    {__NR_openat, KR_WAY_FILE, 4},     {__NR_open, KR_WAY_FILE, 5},     {__NR_getsockname, KR_WAY_FILE, 6},
    {__NR_fcntl, KR_WAY_FILE, 7},      {__NR_ioctl, KR_WAY_FILE, 8},
};

int kr_sockets_allowed(struct kr_task *t, u32 way) {
    for (u32 i = 0; i < KR_COUNT(calls); i++)
        if (calls[i].way == way && (way != KR_WAY_FILE || calls[i].index < 4) && /* opens: kr_file_offer() */
            !kr_seccomp_allows(t, calls[i].nr))
            return 0;
    return 1;
}

u32 kr_local_sockets(struct kr_task *t, struct kr_fact_page *f) {
    u32 ways = 0;
    if (!t->local.holder)
        return 0;
    for (u32 i = 0; i < KR_COUNT(calls); i++)
        if (kr_seccomp_allows(t, calls[i].nr)) {
            f->way[calls[i].nr] = (u8)(calls[i].way | calls[i].index << KR_WAY_SHIFT);
            ways |= 1u << calls[i].way;
        }
    return ways;
}

void kr_sockets_release(struct kr_task *t) {
    struct kr_sockets *k = t->local.holder ? kr_sockets_of(t) : NULL;
    if (!k)
        return;
    kr_lock(&k->lock);
    if (k->holder == t) {
        forget_all_locked(k);
        k->holder = NULL; /* and no other thread becomes the holder: `proc` stays */
        k->inside = 0;
        k->turns++;
    }
    kr_unlock(&k->lock);
    t->local.holder = 0;
    if (t == kr_self())
        kr_queue_timer(t, 0);
}

void kr_sockets_before_fork(struct kr_mm *mm) {
    if (mm->sockets)
        kr_lock(&mm->sockets->lock);
}

void kr_sockets_fork_parent(struct kr_mm *mm) {
    if (mm->sockets)
        kr_unlock(&mm->sockets->lock);
}

void kr_sockets_after_fork(struct kr_task *t) {
    /* The area stays mapped. The fork has emptied the table (kr_sockets_forget), but not that of a process that only shares the
     * memory: its entries would answer for the child's descriptors. */
    struct kr_sockets *k = t->mm->sockets;
    if (k && k->proc != t->proc)
        memset(k->area->entry, 0, sizeof k->area->entry);
    t->mm->sockets = NULL;
    t->local.holder = t->local.timer = t->local.armed = 0;
    kr_free(k, sizeof *k);
}
