/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of TCP sockets that the guest's code gives to reads: see sockets.h and guest/engine_read.inc.
 *
 * The monitor looks at them with MSG_PEEK. They stay in the kernel's queue until the guest's code has given them to
 * the payload and the thread has left the guest: then they are discarded there. Nobody else can read them, so they stay true
 * for as long as the socket is owned. That there were no more than these is true until the next exit only, because then
 * the process may learn of others. So the monitor asks again before it enters the guest, for the sockets that a program will
 * read next: a server that serves the sockets of one wait in turn, with other calls between them, has no exit for its reads. How
 * many it asks follows from how many were read between two exits.
 *
 * An end of file and EAGAIN are never answered: a look that finds no bytes changes nothing. But a look at a socket with an
 * error takes the error (sock_error() in the kernel), so it is kept for the next call.
 *
 * State and lock: sockets.h.
 */
#include "sockets.h"
#include "../lib/kr_linux.h"
#include "../sys/nested.h"

#define FRESH 2 /* sockets that are asked again at each entry, at least */

#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define MSG_DONTWAIT 0x40

static long receive(u32 fd, void *to, u64 len, u32 flags) {
    struct kr_iovec v = {.base = (u64)to, .len = len};
    struct kr_msghdr h = {.iov = (u64)&v, .iovlen = 1};
    return kr_sys3(__NR_recvmsg, fd, &h, flags | MSG_DONTWAIT);
}

void kr_socket_take(struct kr_sockets *k, u32 fd) {
    struct kr_socket *s = &k->s[fd];
    u64 used = k->area->used[fd]; /* once */
    used = KR_MIN(used, (u64)s->len);
    k->answered += used > s->taken;
    while (used > s->taken) {
        /* With MSG_TRUNC TCP discards the bytes (tcp(7)). They are there, so the call neither waits nor fails. */
        long n = receive(fd, NULL, used - s->taken, MSG_TRUNC);
        if (n <= 0) {
            kr_socket_abort(k, fd);
            return;
        }
        s->taken += (u32)n;
    }
    k->area->entry[fd].whole = 0;
}

int kr_socket_has_bytes(u32 fd) {
    u8 one;
    return receive(fd, &one, 1, MSG_PEEK) > 0;
}

void kr_socket_peek(struct kr_sockets *k, u32 fd) {
    struct kr_socket *s = &k->s[fd];
    struct kr_sock_entry *e = &k->area->entry[fd];
    u32 room = KR_MIN(KR_SOCK_DATA_SIZE - k->data_used, (u32)KR_SOCK_MOST);
    if (!room || !kr_sockets_allowed(k->holder, KR_WAY_READ) || !kr_socket_live(k, fd))
        return;
    long n = receive(fd, k->area->data + k->data_used, room, MSG_PEEK);
    if (n == -ENOTCONN) /* it listens */
        s->owned = 0;
    else if (n < 0 &&
             n != -EAGAIN) /* the kernel has forgotten it now: the next call gets it (kr_sockets_fails) */
        s->error = (s32)-n;
    if (n <= 0 || (u64)n > room)
        return;
    s->len = (u32)n;
    s->off = k->data_used;
    s->taken = 0;
    k->area->used[fd] = 0;
    k->data_used += (u32)n;
    e->off = s->off;
    e->whole = (u32)n < room;
    e->len = s->len;
}

void kr_socket_missed(struct kr_sockets *k, u32 fd) {
    if (k->s[fd].len > k->s[fd].taken && !k->area->entry[fd].whole)
        k->fresh = KR_MIN(2 * k->fresh, (u32)KR_SOCKETS_LIVE);
}

/* The sockets are in the order in which the wait has named them, which is that in which most programs read them. */
void kr_sockets_fresh(struct kr_sockets *k) {
    if (k->asked > 2 * k->answered + FRESH)
        k->fresh--;
    k->fresh = KR_MAX(k->fresh, FRESH);
    k->asked = k->answered = 0;
    for (u32 i = 0, seen = 0; i < k->nlive && seen < k->fresh; i++) {
        u32 fd = k->live[i];
        struct kr_socket *s = &k->s[fd];
        u32 left = s->len - s->taken;
        if (s->owned != 1 || !left || s->len >= KR_SOCK_MOST)
            continue;
        seen++;
        if (k->area->entry[fd].whole) /* the wait has just looked */
            continue;
        k->asked++;
        /* Not FIONREAD: the container's profile may refuse it. With MSG_TRUNC nothing is copied. */
        if (receive(fd, NULL, left + 1, MSG_PEEK | MSG_TRUNC) == (long)left)
            k->area->entry[fd].whole = 1;
    }
}
