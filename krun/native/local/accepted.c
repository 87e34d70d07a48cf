/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection that the process has accepted last: see sockets.h and guest/engine_accepted.inc. A server with a connection for each request accepts it,
 * asks for its name and flags, reads, sends and closes it; only accept(2) is an exit then.
 *
 *   bytes   that have come before accept are looked at in its exit, as those of a socket that a wait has found ready
 *   facts   its name and flags, and the name of the listening socket. The connection belongs to this process alone, and calls that could change them
 *           end the facts (after). Another process may have the listening socket, too: its name is asked for anew at each entry
 *   close   of a connection without SO_LINGER neither waits nor fails. The number stays in use until the next exit, and each call that could take it
 *           is one
 *
 * In a process of one thread that shares its descriptors with nobody.
 *
 * State: k->accepted; lock: sockets.h.
 */
#include "sockets.h"
#include "../filter/seccomp.h"
#include "../machine/fdtab.h"
#include "../process/process.h"
#include <linux/fcntl.h>

#define SOL_SOCKET 1
#define SO_LINGER 13

static int is_alone(const struct kr_task *t) {
    return __atomic_load_n(&t->proc->refs, __ATOMIC_ACQUIRE) == 1 && !kr_files_shared((struct kr_task *)t) &&
           !(__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_LENT);
}

static void forget(struct kr_sockets *k) {
    k->accepted.fd = k->accepted.offered = 0;
    k->area->accepted.gen = 0;
}

/* Bytes that were looked at are at the same place again and again, while no other socket has any. */
static void make_room(struct kr_sockets *k) {
    for (u32 i = 0; i < k->nlive; i++)
        if (k->s[k->live[i]].len)
            return;
    k->data_used = 0;
}

void kr_accepted(struct kr_sockets *k, u32 fd, u32 listener) {
    forget(k);
    if (fd >= KR_SOCK_FDS || k->s[fd].owned != 1)
        return;
    if (is_alone(k->holder)) {
        k->accepted.fd = fd + 1;
        k->accepted.listener = listener + 1;
    }
    if (kr_window_closed(&k->holder->window)) {
        make_room(k);
        kr_socket_peek(k, fd);
        kr_socket_credit(k, fd);
    }
}

enum after { OTHER, ANEW, WAITED, STAYS };

/* What the facts are behind the call: true still; to be asked for anew, because flags or options may have changed; or of other sockets, because
 * numbers may have. */
static enum after after(u32 nr, const u64 a[6]) {
    switch (nr) {
    case __NR_read:
    case __NR_write:
    case __NR_readv:
    case __NR_writev:
    case __NR_sendto:
    case __NR_sendfile:
    case __NR_recvfrom:
    case __NR_pread64:
    case __NR_lseek:
    case __NR_open:
    case __NR_openat:
    case __NR_stat:
    case __NR_fstat:
    case __NR_newfstatat:
    case __NR_fchmod:
    case __NR_getsockname:
    case __NR_getpeername:
    case __NR_getsockopt:
    case __NR_brk:
    case __NR_mmap:
    case __NR_munmap:
    case __NR_mremap:
    case __NR_mprotect:
    case __NR_madvise:
    case __NR_getppid:
    case __NR_getrandom:
    case __NR_rt_sigprocmask:
        return STAYS;
    case __NR_poll:
    case __NR_select:
    case __NR_pselect6:
    case __NR_epoll_wait:
        return WAITED;
    case __NR_setsockopt:
    case __NR_ioctl:
        return ANEW;
    case __NR_fcntl:
        return a[1] >= F_GETFD && a[1] <= F_SETFL ? ANEW : OTHER;
    }
    return OTHER;
}

void kr_accepted_call(struct kr_sockets *k, u32 nr, const u64 a[6]) {
    struct kr_accepted *o = &k->accepted;
    o->called = o->fd;
    if (!o->fd)
        return;
    enum after then = after(nr, a);
    if (then == OTHER)
        forget(k);
    else if (then == ANEW)
        o->offered = k->area->accepted.gen = 0;
    else if (then == WAITED) /* an event loop, which is not going to ask, does not pay at each entry */
        o->listener = k->area->accepted.listener.len = 0;
}

int kr_accepted_named(const struct kr_sockets *k, u32 fd) {
    const struct kr_accepted *o = &k->accepted;
    return o->called && (o->called - 1 == fd || o->listener - 1 == fd);
}

static void name(struct kr_sock_name *n, u32 fd) {
    u32 len = sizeof n->addr;
    n->fd = fd;
    n->len = kr_sys3(__NR_getsockname, fd, n->addr, &len) == 0 && len <= sizeof n->addr ? len : 0;
}

static int lingers(u32 fd) {
    s32 linger[2] = {1, 0};
    u32 len = sizeof linger;
    return kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, SO_LINGER, linger, &len) < 0 || linger[0];
}

void kr_accepted_offer(struct kr_sockets *k) {
    struct kr_accepted *o = &k->accepted;
    struct kr_sock_accepted *f = &k->area->accepted;
    u32 fd = o->fd - 1;
    if (!o->fd || !kr_window_closed(&k->holder->window))
        return;
    if (k->s[fd].owned != 1 || !is_alone(k->holder)) {
        forget(k);
        return;
    }
    if (o->listener)
        name(&f->listener, o->listener - 1);
    if (o->offered)
        return;
    long fd_flags = kr_sys3(__NR_fcntl, fd, F_GETFD, 0), flags = kr_sys3(__NR_fcntl, fd, F_GETFL, 0);
    if (fd_flags < 0 || flags < 0) {
        forget(k);
        return;
    }
    name(&f->name, fd);
    f->fd = fd;
    o->closes = kr_seccomp_allows(k->holder, __NR_close) && !lingers(fd);
    f->closes = o->closes;
    f->fd_flags = (u32)fd_flags;
    f->flags = (u32)flags;
    f->nonblock = !!(flags & O_NONBLOCK);
    if (!++o->count)
        o->count = 1;
    f->gen = o->count;
    o->offered = 1;
}

void kr_accepted_close(struct kr_sockets *k, u32 gen) {
    struct kr_accepted *o = &k->accepted;
    u32 fd = o->fd - 1;
    if (!o->offered || gen != o->count || !o->closes)
        return;
    kr_socket_clear(k, fd);
    k->s[fd].owned = 0;
    k->s[fd].error = 0;
    forget(k);
    kr_fd_shut(fd);
}
