/* SPDX-License-Identifier: Apache-2.0
 *
 * How sockets come into the table of owned ones, and which are ready: see sockets.h.
 *
 * State and lock: sockets.h.
 */
#include "sockets.h"
#include "../abi/boot.h"
#include "../guest/patched.h"
#include "../machine/fdtab.h"
#include "../machine/usercopy.h"
#include "../process/process.h"

_Static_assert(KR_SOCK_GVA == KR_SYS_BASE + KR_SYS_SOCKETS && KR_SYS_SOCKETS + KR_SK_SIZE <= KR_VCPU_FIRST,
               "guest/socketpage.h");
_Static_assert(KR_SYS_OWN + KR_PAGE <= KR_SYS_SITES &&
                   KR_SYS_SITES + KR_SITES * KR_SITE_SIZE <= KR_SYS_SOCKETS,
               "guest/patched.h: ring 3 writes the area of sockets, and must not reach the trampolines");

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SOL_TCP 6
#define SOCK_STREAM 1
#define SO_TYPE 3
#define SO_RCVLOWAT 18
#define SO_PROTOCOL 38
#define SO_DOMAIN 39
#define SO_PEEK_OFF 42
#define TCP_REPAIR 19
#define TCP_NOTSENT_LOWAT 25
#define TCP_ULP 31

/* ---- new sockets ---- */

static long option(u32 fd, u32 level, u32 name, s32 otherwise) {
    s32 value = otherwise;
    u32 len = sizeof value;
    return kr_sys5(__NR_getsockopt, fd, level, name, &value, &len) < 0 ? otherwise : value;
}

/* Whether fd is a plain TCP socket. A connection has its options from the socket that has accepted it. With TCP_NOTSENT_LOWAT the
 * kernel takes less than there is room for; with SO_RCVLOWAT a read may wait for more than is there. */
static int is_plain(u32 fd) {
    char ulp[16];
    u32 len = sizeof ulp;
    long domain = option(fd, SOL_SOCKET, SO_DOMAIN, -1);
    return (domain == AF_INET || domain == AF_INET6) && option(fd, SOL_SOCKET, SO_TYPE, -1) == SOCK_STREAM &&
           option(fd, SOL_SOCKET, SO_PROTOCOL, -1) == SOL_TCP &&
           option(fd, SOL_SOCKET, SO_PEEK_OFF, -1) < 0 && option(fd, SOL_TCP, TCP_REPAIR, 0) == 0 &&
           option(fd, SOL_SOCKET, SO_RCVLOWAT, 1) <= 1 && option(fd, SOL_TCP, TCP_NOTSENT_LOWAT, 0) == 0 &&
           kr_sys5(__NR_getsockopt, fd, SOL_TCP, TCP_ULP, ulp, &len) == 0 && len == 0;
}

static int may_hold(const struct kr_task *t) {
    u32 flags = __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED);
    return flags & KR_BOOTF_SOCKETS &&
           (t->local.holder || __atomic_load_n(&t->proc->refs, __ATOMIC_ACQUIRE) == 1) && t->local.possible &&
           t->vcpu && kr_vm_entry(&t->mm->vm) == KR_ENTRY_RING3 && !t->is_vfork &&
           !(flags & (KR_PROCF_SHARED_FILES | KR_PROCF_LENT));
}

static int map_area(struct kr_vm *vm) {
    for (u32 at = 0; at < KR_SK_SIZE; at += KR_PAGE) {
        u64 writable = at >= KR_SK_USED ? KR_PTE_W : 0;
        int used = at < KR_SK_AC_GEN + sizeof(struct kr_sock_accepted) ||
                   (at >= KR_SK_DATA && at < KR_SK_CONTROL_END) || at >= KR_SK_QUEUE;
        if (used && kr_pt_sys(vm, KR_SOCK_GVA + at, KR_SYS_GPA + KR_SYS_SOCKETS + at,
                              KR_PTE_U | KR_PTE_NX | writable) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Makes t the holder if nobody is. NULL: it is not. */
static struct kr_sockets *hold(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    if (!may_hold(t))
        return NULL;
    if (t->local.holder)
        return kr_sockets_of(t);
    int made = 0;
    kr_lock(&mm->lock);
    struct kr_sockets *k = mm->sockets;
    if (!k && map_area(&mm->vm) == 0 && (k = kr_alloc(sizeof *k))) {
        k->area = (struct kr_sock_area *)(mm->vm.sys + KR_SYS_SOCKETS);
        k->area->limit = k->area->tail = 0;
        k->file.again = -1;
        __atomic_store_n(&mm->sockets, k, __ATOMIC_RELEASE);
    }
    if (k && !k->proc) {
        kr_lock(&k->lock);
        k->holder = t;
        __atomic_store_n(&k->proc, t->proc, __ATOMIC_RELEASE);
        kr_unlock(&k->lock);
        t->local.holder = 1;
        made = 1;
    }
    kr_unlock(&mm->lock);
    if (!made)
        return NULL;
    kr_queue_timer(t, 1);
    __atomic_add_fetch(&t->local.generation, 1, __ATOMIC_RELEASE);
    return k;
}

void kr_sockets_thread(struct kr_task *t) {
    if (__atomic_load_n(&t->proc->refs, __ATOMIC_ACQUIRE) != 1)
        return;
    struct kr_sockets *k = t->local.holder ? kr_sockets_of(t) : hold(t);
    if (!k)
        return;
    kr_lock(&k->lock);
    /* No credit for sockets that block (kr_socket_credit). Their records have been carried out. */
    for (u32 i = 0; i < k->nlive; i++)
        if (!k->s[k->live[i]].nonblock)
            kr_socket_clear(k, k->live[i]);
    kr_unlock(&k->lock);
}

static void enroll(struct kr_task *t, u32 fd) {
    struct kr_sockets *k = kr_sockets_of(t);
    int first = !t->local.holder; /* and there is no other thread */
    int alone = __atomic_load_n(&t->proc->refs, __ATOMIC_ACQUIRE) == 1;
    if (fd >= KR_SOCK_FDS || !may_hold(t) || (k && (t != k->holder || k->meddled >= KR_SOCKETS_MEDDLED)) ||
        (alone && !is_plain(fd)) || !(k = hold(t)))
        return;
    kr_lock(&k->lock);
    if (k->cloning || (t->local.clones != k->clones && !first)) {
        kr_unlock(&k->lock);
        return;
    }
    u32 gen = k->s[fd].gen + 1, guess = __atomic_load_n(&k->s[fd].guess, __ATOMIC_SEQ_CST);
    u8 live = k->s[fd].live;
    if (!first && (s32)(guess - t->local.guesses) > 0) { /* another thread may have a copy */
        kr_unlock(&k->lock);
        return;
    }
    kr_socket_clear(k, fd);
    k->s[fd] = (struct kr_socket){.owned = 1, .nonblock = 2, .gen = gen, .live = live, .guess = guess};
    k->area->entry[fd].gen = gen;
    kr_unlock(&k->lock);
    /* A call of another thread that has found the number not owned may close it still, and then it may become the monitor's. Each
     * side stores before it loads: that call sees the owner, or its name is seen here, or it has ended before is_plain(). */
    if (!alone && (kr_fd_in_call(t->mm, fd) || !is_plain(fd)))
        kr_sockets_passed(t, fd);
}

/* ---- after a call ---- */

static u32 hash(u64 data) { return (u32)(data * 0x9e3779b97f4a7c15ULL >> 54); }
_Static_assert(KR_SOCK_FDS == 1 << 10, "hash");

struct event {
    u32 events;
    u64 data;
} __attribute__((packed));

static void watched(struct kr_sockets *k, u32 fd, u64 ptr) {
    struct event e;
    if (fd >= KR_SOCK_FDS || kr_copy_in(&e, ptr, sizeof e) < 0)
        return;
    kr_lock(&k->lock);
    if (k->s[fd].owned) {
        k->s[fd].data = e.data;
        k->by_data[hash(e.data)] = (u16)(fd + 1);
    }
    kr_unlock(&k->lock);
}

#define EPOLLIN 1u
#define EPOLLOUT 4u

/* A socket that a wait has found ready for reading, and nothing else. While the thread asks for the interrupt window, no call
 * is completed. */
static void ready(struct kr_sockets *k, u32 fd) {
    if (!kr_window_closed(&k->holder->window) || fd >= KR_SOCK_FDS || k->s[fd].owned != 1 || k->s[fd].len)
        return;
    kr_socket_peek(k, fd);
    if (k->s[fd].len)
        kr_socket_credit(k, fd);
}

void kr_sockets_ready(struct kr_task *t, s32 fd, u32 events) {
    struct kr_sockets *k = kr_sockets_of(t);
    if (!k || t != k->holder || events & ~(EPOLLIN | EPOLLOUT) || !(events & EPOLLIN))
        return;
    kr_lock(&k->lock);
    ready(k, (u32)fd);
    kr_unlock(&k->lock);
}

static void events(struct kr_sockets *k, u64 ptr, u32 n) {
    struct event e[KR_SOCKETS_LIVE];
    n = KR_MIN(n, (u32)KR_SOCKETS_LIVE);
    if (kr_copy_in(e, ptr, n * sizeof e[0]) < 0)
        return;
    kr_lock(&k->lock);
    for (u32 i = 0; i < n; i++) {
        u32 fd = k->by_data[hash(e[i].data)];
        if (fd-- && k->s[fd].data == e[i].data && (e[i].events & ~EPOLLOUT) == EPOLLIN)
            ready(k, fd);
    }
    kr_unlock(&k->lock);
}

void kr_sockets_served(struct kr_task *t, u64 nr, long ret) {
    struct kr_sockets *k = kr_sockets_of(t);
    switch ((u32)nr) {
    case __NR_socket:
        if (ret >= 0 && (u32)t->args[0] != AF_INET && (u32)t->args[0] != AF_INET6)
            return;
        __attribute__((fallthrough));
    case __NR_accept:
    case __NR_accept4:
        if (ret < 0)
            return;
        enroll(t, (u32)ret);
        k = kr_sockets_of(t);
        if (nr != __NR_socket && k && t == k->holder) {
            kr_lock(&k->lock);
            kr_accepted(k, (u32)ret, (u32)t->args[0]);
            kr_unlock(&k->lock);
        }
        return;
    case __NR_open:
    case __NR_openat:
        if (ret >= 0 && k && t == k->holder)
            kr_file_opened(k, (u32)ret, (u32)nr, t->args);
        return;
    case __NR_epoll_ctl:
        if (ret == 0 && k && t == k->holder && (u32)t->args[1] != 2) /* EPOLL_CTL_DEL */
            watched(k, (u32)t->args[2], t->args[3]);
        return;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
        if (ret > 0 && k && t == k->holder)
            events(k, t->args[1], (u32)ret);
        return;
    case __NR_read:
    case __NR_recvfrom:
        if (ret > 0 && k && t == k->holder && (u32)t->args[0] < KR_SOCK_FDS) {
            kr_lock(&k->lock);
            if (kr_window_closed(&t->window))
                kr_socket_credit(k, (u32)t->args[0]);
            kr_unlock(&k->lock);
        }
        return;
    }
}
