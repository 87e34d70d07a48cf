/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends on TCP sockets that the guest's code has written down (guest/engine_queue.inc), and their carrying out: see sockets.h.
 *
 * A call says that its data are sent before they are. So:
 *
 *   room     credit is less than the room in the send buffer, as the kernel counts it, and covers what each call takes
 *            beside its data. So the kernel takes all of a record. Where it does not, because it has little memory for TCP, the
 *            thread waits: on a blocking socket for as long as the call would have waited, if the process has no other thread, which the wait would
 *            hold up; else, and once a handler of a signal is to run, for a second. A connection that then still takes nothing is
 *            reset. Where the sysctl net.ipv4.tcp_notsent_lowat makes the kernel take less, no call is deferred
 *   order    the records are sent before anything else that the process does outside the guest, in their order
 *   delay    a timer of the host ends the holder's time in the guest (BOUND). Without the timer there is no credit
 *   errors   a send that fails later is one that the connection lost on its way. The error is kept for the next call on
 *            the descriptor (kr_sockets_fails), as the kernel keeps a socket's error. So is one that prefetch.c has met
 *
 * The records are the payload's. Each header is copied once. A record counts as a call of sendto(2) by the holder on the same
 * descriptor: the filters allow it whatever its arguments are, or there is no credit, and new filters end all credit (kr_sockets_forget). What is not a socket with credit,
 * or more than its credit, is dropped.
 *
 * State and lock: sockets.h. The holder's kr_local: timer, armed, tick.
 */
#include "sockets.h"
#include "../lib/kr_linux.h"
#include "../machine/usercopy.h"
#include "../process/process.h"
#include "../process/signal.h"
#include "../sys/nested.h"
#include "../view/ask.h"
#include "../view/procfs.h"
#include <asm/poll.h>
#include <asm/siginfo.h>
#include <linux/fcntl.h>
#include <linux/time.h>
#include <linux/time_types.h>

#define BOUND 1000000L /* ns: how long a record may wait */
#define PATIENCE 100   /* ms, PATIENT times: how long it may take nothing where the call would not wait */
#define PATIENT 10
#define LEAST_CREDIT 4096 /* less is not given */
#define MOST_CREDIT 0x20000u

#define SOL_SOCKET 1
#define SO_ERROR 4
#define SO_MEMINFO 55
#define SK_MEMINFO_SNDBUF 3
#define SK_MEMINFO_WMEM_QUEUED 5
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define NO_TIMER 2

struct pollfd_k {
    s32 fd;
    u16 events, revents;
};

/* ---- credit ---- */

static u32 room(u32 fd) {
    u32 m[9] = {0}, len = sizeof m;
    if (kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, SO_MEMINFO, m, &len) < 0 ||
        len <= SK_MEMINFO_WMEM_QUEUED * 4 || m[SK_MEMINFO_WMEM_QUEUED] >= m[SK_MEMINFO_SNDBUF])
        return 0;
    return (m[SK_MEMINFO_SNDBUF] - m[SK_MEMINFO_WMEM_QUEUED]) / 2;
}

static int is_open(u32 fd) {
    struct pollfd_k p = {.fd = (s32)fd, .events = POLLIN | POLLOUT | POLLRDHUP};
    return kr_sys3(__NR_poll, &p, 1, 0) == 1 && (p.revents & ~(u16)POLLIN) == POLLOUT;
}

/* Whether a wait with k->lock would hold up nobody: neither another thread, nor a process that shares the memory. */
static int is_alone(const struct kr_sockets *k) {
    return __atomic_load_n(&k->proc->refs, __ATOMIC_ACQUIRE) == 1 &&
           !(__atomic_load_n(&k->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_LENT);
}

void kr_socket_credit(struct kr_sockets *k, u32 fd) {
    struct kr_socket *s = &k->s[fd];
    if (s->owned != 1 || s->credit || s->error || k->holder->local.timer != 1 ||
        !kr_sockets_allowed(k->holder, KR_WAY_QUEUE))
        return;
    if (s->nonblock == 2) {
        long flags = kr_sys3(__NR_fcntl, fd, F_GETFL, 0);
        s->nonblock = flags >= 0 && (flags & O_NONBLOCK);
    }
    if (!is_open(fd) || (!s->nonblock && !is_alone(k)))
        return;
    u32 credit = KR_MIN(room(fd), MOST_CREDIT);
    if (credit < LEAST_CREDIT || !kr_socket_live(k, fd))
        return;
    s->credit = credit;
    k->credits++;
    k->area->spent[fd] = 0;
    k->area->entry[fd].credit = credit;
}

/* ---- carrying out ---- */

/* Whether a send on the socket would wait without an end, and the thread may do so in its place. */
static int may_block(const struct kr_sockets *k, u32 fd) {
    s64 limit[2] = {1, 0};
    u32 len = sizeof limit;
    return k->s[fd].nonblock == 0 && is_alone(k) && !kr_self()->sig_caught &&
           kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, limit, &len) == 0 && !limit[0] && !limit[1];
}

struct wait {
    u32 tries; /* that count: PATIENT at most */
    u32 woken; /* there was room, but no memory for more data: as the kernel, the thread sleeps before it tries again */
};

/* Waits until the socket takes more. 0: it did not. */
static int waits(struct kr_sockets *k, u32 fd, struct wait *w) {
    struct pollfd_k p = {.fd = (s32)fd, .events = POLLOUT};
    const s64 moment[2] = {0, PATIENCE * 1000000L};
    for (;;) { /* a signal ends one of the waits */
        int blocks = may_block(k, fd);
        if (!blocks && w->tries++ == PATIENT)
            return 0;
        if (blocks && kr_self()->asked & KR_ASKED_QUESTION)
            kr_ask_serve(kr_self());
        if (w->woken)
            kr_sys2(__NR_nanosleep, moment, 0);
        if ((w->woken = kr_sys3(__NR_poll, &p, 1, PATIENCE) == 1))
            return 1;
    }
}

/* Data of records in a row, for one socket: one call sends them. */
struct batch {
    u32 fd, n;
    int file; /* some are in kr_sockets.bytes */
    u64 len;
    struct kr_iovec v[8];
};

static void send(struct kr_sockets *k, struct batch *b) {
    u32 fd = b->fd, first = 0;
    u64 len = b->len;
    struct wait w = {0, 0};
    while (len) {
        struct kr_msghdr h = {.iov = (u64)&b->v[first], .iovlen = b->n - first};
        long n = kr_sys3(__NR_sendmsg, fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0 && (u64)n <= len) {
            w = (struct wait){0, 0};
            len -= (u64)n;
            for (u64 part; n && (part = KR_MIN((u64)n, b->v[first].len)); n -= (long)part) {
                b->v[first].base += part;
                if (!(b->v[first].len -= part))
                    first++;
            }
        } else if (n == -EAGAIN) {
            if (!waits(k, fd, &w)) {
                kr_socket_abort(k, fd);
                break;
            }
        } else {
            k->s[fd].error = n < 0 ? (s32)-n : EIO;
            kr_socket_clear(k, fd);
            break;
        }
    }
    b->n = 0;
    b->len = 0;
    b->file = 0;
}

static int is_of_number(u32 kind) { return kind >= KR_SR_CLOSE && kind <= KR_SR_LEAVE; }

/* One record at `at`. Its length in the queue; 0: it is none. */
static u64 record(struct kr_sockets *k, struct batch *b, u64 at, u64 end) {
    struct kr_sock_record r;
    if (end - at < sizeof r)
        return 0;
    memcpy(&r, (const void *)(k->area->queue + at), sizeof r); /* once */
    u64 size = sizeof r + (r.kind == KR_SR_FILE ? 8 : ((u64)r.len + 7) & ~7ULL);
    if (r.len > KR_SOCK_MOST || size > end - at || (r.len == 0) != is_of_number(r.kind))
        return 0;
    if (b->n && (is_of_number(r.kind) || r.fd != b->fd || b->n == KR_COUNT(b->v) ||
                 (r.kind == KR_SR_FILE && b->file)))
        send(k, b);
    if (is_of_number(r.kind)) {
        if (r.kind == KR_SR_CLOSE)
            kr_file_close(k, r.gen);
        else if (r.kind == KR_SR_LEAVE)
            kr_accepted_close(k, r.gen);
        else
            kr_file_open(k, r.gen);
        return size;
    }
    struct kr_socket *s = r.fd < KR_SOCK_FDS ? &k->s[r.fd] : NULL;
    if (!s || !s->owned || s->gen != r.gen || s->error || s->credit < (u64)r.len + KR_SOCK_SKB ||
        (r.kind == KR_SR_FILE && (!k->file.offered || k->file.closed)))
        return size; /* not what the guest's code writes, or the connection has failed */
    s->credit -= r.len + KR_SOCK_SKB;
    if (!s->credit)
        k->credits--;
    u64 from = (u64)(k->area->queue + at + sizeof r);
    if (r.kind == KR_SR_FILE) {
        u64 offset;
        memcpy(&offset, (const void *)from, sizeof offset); /* once */
        from = (u64)kr_file_bytes(k, offset, r.len);
        if (!from) {
            if (b->n) /* what comes before it */
                send(k, b);
            kr_socket_abort(k, r.fd);
            return size;
        }
        b->file = 1;
    }
    b->fd = r.fd;
    b->v[b->n++] = (struct kr_iovec){.base = from, .len = r.len};
    b->len += r.len;
    return size;
}

void kr_queue_flush(struct kr_sockets *k, int own) {
    struct kr_sock_area *area = k->area;
    struct batch b = {.n = 0, .len = 0, .file = 0};
    u64 tail = area->tail, size = 0; /* once */
    tail = KR_MIN(tail, (u64)KR_SOCK_QUEUE_SIZE);
    for (; k->head < tail; k->head += size)
        if (!(size = record(k, &b, k->head, tail))) {
            k->head = tail;
            break;
        }
    if (b.n)
        send(k, &b);
    if (!own || !tail)
        return;
    k->head = 0;
    area->tail = 0;
    for (u32 i = 0; i < k->nlive; i++) {
        u32 fd = k->live[i];
        area->spent[fd] = 0;
        /* Not of one on its way out (meddle() in sockets.c): what the holder sent on it from now on would be dropped. */
        area->entry[fd].credit = k->s[fd].owned == 1 ? k->s[fd].credit : 0;
    }
}

/* ---- the timer ---- */

struct event {
    u64 value;
    s32 signo, notify, tid;
    s32 pad[11];
};
_Static_assert(sizeof(struct event) == 64, "struct sigevent");

static long set_timer(long ns) {
    struct __kernel_itimerspec when = {.it_value.tv_nsec = ns};
    return kr_sys4(__NR_timer_settime, KR_QUEUE_TIMER, 0, &when, 0);
}

/* The number is one that the kernel does not give: the payload's timers have the numbers that they would have. Only while
 * the process has one thread (may_hold() in enroll.c), because the kernel takes wanted numbers from all threads meanwhile. */
static int make_timer(struct kr_task *t) {
    struct event e = {
        .value = t->local.tick, .signo = SIGBUS, .notify = SIGEV_THREAD_ID, .tid = (s32)kr_sys0(__NR_gettid)};
    s32 id = KR_QUEUE_TIMER;
    if (kr_sys5(__NR_prctl, PR_TIMER_CREATE_RESTORE_IDS, 2, 0, 0, 0) != 0 || /* the payload itself uses it */
        kr_sys5(__NR_prctl, PR_TIMER_CREATE_RESTORE_IDS, 1, 0, 0, 0) < 0)
        return 0;
    long r = kr_sys3(__NR_timer_create, CLOCK_MONOTONIC, &e, &id);
    kr_sys5(__NR_prctl, PR_TIMER_CREATE_RESTORE_IDS, 0, 0, 0, 0);
    return r == 0 && id == KR_QUEUE_TIMER;
}

/* Whether the kernel takes as much as there is room for: it does unless this sysctl of the network namespace is set (tcp(7)). */
static int takes_all(struct kr_task *t) {
    size_t size, len;
    char *text = kr_proc_slurp(t, "sys/net/ipv4/tcp_notsent_lowat", &size, &len);
    int all = text && kr_strtou(text, NULL) >= 0x7fffffff;
    kr_free(text, text ? size : 0);
    return all;
}

void kr_queue_timer(struct kr_task *t, int make) {
    if (!make) {
        if (t->local.timer == 1)
            kr_sys1(__NR_timer_delete, KR_QUEUE_TIMER);
        t->local.timer = 0;
        return;
    }
    t->local.armed = 0;
    kr_sys3(__NR_getrandom, &t->local.tick, sizeof t->local.tick, 0);
    t->local.timer = takes_all(t) && make_timer(t) ? 1 : NO_TIMER;
}

int kr_queue_bounded(struct kr_task *t) {
    if (t->local.timer != 1)
        return 0;
    if (!t->local.armed) {
        t->local.armed = 1; /* first: the signal clears it */
        if (set_timer(BOUND) < 0)
            t->local.timer = NO_TIMER;
    }
    return t->local.timer == 1;
}

void kr_queue_unbound(struct kr_task *t) {
    if (t->local.armed) {
        set_timer(0); /* a signal that is on its way arrives before this returns */
        t->local.armed = 0;
    }
}

int kr_queue_tick(struct kr_task *t, const siginfo_t *si) {
    if (t->local.timer != 1 || si->si_code != SI_TIMER || (u64)si->si_value.sival_ptr != t->local.tick)
        return 0;
    t->local.armed = 0;
    return 1;
}

int kr_queue_is_timer(const struct kr_task *t, u64 id) {
    return (u32)id == KR_QUEUE_TIMER && kr_sockets_of(t);
}

/* ---- errors that are kept ---- */

static int reads(u32 nr) {
    return nr == __NR_read || nr == __NR_readv || nr == __NR_recvfrom || nr == __NR_recvmsg;
}

/* As send_sig() of the kernel for a connection that takes no more. */
static void broken_pipe(void) {
    siginfo_t si;
    memset(&si, 0, sizeof si);
    si.si_signo = SIGPIPE;
    si.si_code = SI_USER;
    si.si_pid = (int)kr_sys0(__NR_getpid);
    si.si_uid = (u32)kr_sys0(__NR_getuid);
    kr_sys4(__NR_rt_tgsigqueueinfo, si.si_pid, kr_sys0(__NR_gettid), SIGPIPE, &si);
}

static long error_option(s32 error, const u64 a[6]) {
    s32 len;
    if (kr_copy_in(&len, a[4], sizeof len) < 0)
        return -EFAULT;
    if (len < 0)
        return -EINVAL;
    len = KR_MIN(len, 4);
    return kr_copy_out(a[3], &error, (u64)len) < 0 || kr_copy_out(a[4], &len, sizeof len) < 0 ? -EFAULT : 0;
}

/* The answer to a call on a socket with a kept error. 1: the call is made. */
static long answer(u32 fd, s32 error, u32 nr, const u64 a[6]) {
    u32 flags = nr == __NR_sendto ? (u32)a[3] : nr == __NR_sendmsg ? (u32)a[2] : 0;
    switch (nr) {
    case __NR_getsockopt:
        return a[1] == SOL_SOCKET && a[2] == SO_ERROR ? error_option(error, a) : 1;
    case __NR_write:
    case __NR_writev:
    case __NR_sendto:
    case __NR_sendmsg:
    case __NR_sendfile:
        if (error == EPIPE && !(flags & MSG_NOSIGNAL))
            broken_pipe();
        return -error;
    }
    if (!reads(nr))
        return 1;
    /* As in the kernel, bytes come first. */
    return kr_socket_has_bytes(fd) ? 1 : -error;
}

int kr_sockets_fails(struct kr_task *t, u64 number, const u64 a[6], long *ret) {
    struct kr_sockets *k = kr_sockets_of(t);
    u32 fd = (u32)number;
    if (!k || fd >= KR_SOCK_FDS || !k->s[fd].error)
        return 0;
    kr_lock(&k->lock);
    s32 error = k->s[fd].error;
    long r = error ? answer(fd, error, (u32)t->nr, a) : 1;
    if (r <= 0)
        k->s[fd].error = 0;
    kr_unlock(&k->lock);
    *ret = r;
    return r <= 0;
}
