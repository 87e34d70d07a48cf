/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets: the calls with nested pointers (messages, control data, some options). All other calls of the
 * family are forwarded by their rows. No state, no locks.
 */
#include "nested.h"
#include "uevent.h"
#include "unixaddr.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../process/above.h"
#include "../view/ask.h"
#include "../view/procfs.h"

#define AF_RDS 21
#define AF_XDP 44

#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define SOL_RDS 276

long sys_socket(struct kr_task *t, const u64 a[6]) {
    /* Requests of these families carry addresses that the kernel uses later (XDP_UMEM_REG, RDMA
     * arguments). */
    if ((s32)a[0] == AF_RDS || (s32)a[0] == AF_XDP)
        return -EAFNOSUPPORT;
    if ((s32)a[0] == KR_AF_NETLINK && (s32)a[2] == KR_NETLINK_KOBJECT_UEVENT)
        return kr_uevent_socket(t, a);
    return kr_forward(__NR_socket, a);
}

/* ---- messages ---- */

#define CMSG_ROUND(n) (((n) + 7) & ~7ULL)

#define CONTROL_MAX (1u << 20) /* far above net.core.optmem_max, where the kernel says ENOBUFS */
#define MSG_BATCH_IOVS                                                                                       \
    16384u /* of one sendmmsg or recvmmsg: a longer one is cut short, which callers must expect anyway */

/* What walk_control does with each descriptor in the control data of a send, which lies in monitor memory.
 * CHECK: a hidden number becomes one that is not open. COPY, while other threads share the table: the
 * descriptor is replaced by a copy (kr_fd_pass). RELEASE: the copy is closed after the send. */
enum { CHECK, COPY, RELEASE };

static s32 sent_fd(struct kr_task *t, s32 fd, int how) {
    if (fd < 0 || fd == KR_BAD_FD)
        return fd;
    if (how != RELEASE && t->mm->sockets)
        kr_sockets_passed(t, (u32)fd);
    if (how == CHECK)
        return kr_guest_fd((u32)fd);
    if (how == COPY) {
        int copy = kr_fd_pass(t->mm, (u32)fd);
        kr_sockets_copied(t, (u32)fd);
        return copy < 0 ? KR_BAD_FD : copy;
    }
    kr_fd_passed(fd);
    return fd;
}

static long walk_control(struct kr_task *t, u8 *c, u64 len, int how) {
    struct kr_cmsghdr h;
    for (u64 off = 0; len - off >= sizeof h && off <= len;) {
        memcpy(&h, c + off, sizeof h);
        if (h.len < sizeof h || h.len > len - off)
            return 0; /* the kernel stops here as well: EINVAL */
        if (h.level == SOL_RDS)
            return -EINVAL;
        if (h.level == SOL_SOCKET && h.type == SCM_RIGHTS) {
            for (u64 i = off + sizeof h; i + 4 <= off + h.len; i += 4) {
                s32 fd;
                memcpy(&fd, c + i, 4);
                fd = sent_fd(t, fd, how);
                memcpy(c + i, &fd, 4);
            }
        }
        u64 step = CMSG_ROUND(h.len);
        if (step > len - off)
            break;
        off += step;
    }
    return 0;
}

/* Closes the copies that control_in has made, whether the message was sent or not. */
static void release_control(struct kr_task *t, u8 *c, u64 len, int copied) {
    if (c && copied)
        walk_control(t, c, len, RELEASE);
}

/* Replaces h's control pointer by a checked copy. *copy is NULL if there is nothing to free. 0 or -errno. */
static long control_in(struct kr_task *t, struct kr_msghdr *h, u8 **copy, u8 *small, size_t small_size,
                       int copied) {
    *copy = NULL;
    if (!h->controllen)
        return 0;
    if (h->controllen > CONTROL_MAX)
        return -ENOBUFS;
    u8 *c = kr_temp(small, small_size, h->controllen);
    if (!c)
        return -ENOBUFS;
    *copy = c;
    if (kr_copy_in(c, h->control, h->controllen) < 0) {
        memset(c, 0, h->controllen); /* nothing to release */
        h->control = KR_BAD_PTR;
        return 0;
    }
    h->control = (u64)c;
    return walk_control(t, c, h->controllen, copied ? COPY : CHECK);
}

/* Checks the pointers of a header for a receive. */
static void check_header(struct kr_msghdr *h) {
    if (h->name)
        h->name = kr_guest_ptr(h->name, 1);
    if (h->control)
        h->control = kr_guest_ptr(h->control, h->controllen);
}

/* Copies in the destination address of a message. A long name is cut, as copy_msghdr_from_user() in the
 * kernel does. */
static void name_in(struct kr_task *t, struct kr_msghdr *h, struct kr_addr *x) {
    u64 len = !h->name ? 0 : h->namelen > KR_ADDR_MAX ? KR_ADDR_MAX : (u64)(u32)h->namelen;
    kr_addr_in(t, h->name, len, x);
    if (h->name)
        h->name = x->ptr;
    h->namelen = (s32)x->len;
}

long sys_sendmsg(struct kr_task *t, const u64 a[6]) {
    struct kr_msghdr h;
    struct kr_iovs io;
    struct kr_addr to;
    u8 small[256], *control;
    if (kr_copy_in(&h, a[1], sizeof h) < 0)
        return kr_call_intr(__NR_sendmsg, a[0], KR_BAD_PTR, a[2], 0, 0, 0);
    long r = kr_iovs_in(&io, h.iov, h.iovlen, &h.iov);
    if (r < 0)
        return r;
    name_in(t, &h, &to);
    int copied = kr_files_shared(t);
    r = control_in(t, &h, &control, small, sizeof small, copied);
    u64 length = h.controllen;
    if (r == 0)
        r = kr_addr_call(t, __NR_sendmsg, (u64[6]){a[0], (u64)&h, a[2]}, &to);
    for (long n = r; r > 0 && h.iovlen &&
                     kr_ask_goes_on(t, n);) { /* a part was sent: on a connection, with the control data */
        h.control = h.controllen = h.name = 0;
        h.namelen = 0;
        kr_iovs_skip(&h.iov, &h.iovlen, n > 0 ? (u64)n : 0);
        n = h.iovlen ? kr_call_intr(__NR_sendmsg, a[0], (u64)&h, a[2], 0, 0, 0) : 0;
        r += n > 0 ? n : 0;
    }
    kr_addr_drop(&to);
    release_control(t, control, length, copied);
    kr_temp_drop(control, small, length);
    kr_iovs_drop(&io);
    return r;
}

/* Copies out the fields that recvmsg(2) writes into the header. 0 or -EFAULT. */
static long header_out(u64 ptr, const struct kr_msghdr *h) {
    if (kr_copy_out(ptr + offsetof(struct kr_msghdr, controllen), &h->controllen, 8) < 0 ||
        kr_copy_out(ptr + offsetof(struct kr_msghdr, flags), &h->flags, 4) < 0)
        return -EFAULT;
    return h->name ? kr_copy_out(ptr + offsetof(struct kr_msghdr, namelen), &h->namelen, 4) : 0;
}

long sys_recvmsg(struct kr_task *t, const u64 a[6]) {
    (void)t;
    struct kr_msghdr h;
    struct kr_iovs io;
    if (kr_copy_in(&h, a[1], sizeof h) < 0)
        return kr_call_intr(__NR_recvmsg, a[0], KR_BAD_PTR, a[2], 0, 0, 0);
    check_header(&h);
    long r = kr_iovs_in(&io, h.iov, h.iovlen, &h.iov);
    if (r < 0)
        return r;
    r = kr_call_intr(__NR_recvmsg, a[0], (u64)&h, a[2], 0, 0, 0);
    kr_iovs_drop(&io);
    if (r >= 0 && header_out(a[1], &h) < 0)
        return -EFAULT;
    return r;
}

/* sendmmsg and recvmmsg: all headers in one block, all vectors in another. The kernel makes the loop, so
 * partial results, errors after the first message and the timeout are the kernel's. */
struct batch {
    struct kr_mmsghdr *m;
    u32 n;
    size_t m_size;
    struct kr_iovec *v;
    size_t v_size;
    u8 **control;              /* per message; send only */
    struct kr_addr *to;        /* per message; send only, and where one has a name */
    const struct kr_addr *odd; /* an address in `to` that needs kr_call_from; or NULL */
    u64 *controllen;
    int copied; /* as walk_control's COPY */
};

static void batch_drop(struct kr_task *t, struct batch *b) {
    for (u32 i = 0; b->control && i < b->n; i++)
        if (b->control[i]) {
            release_control(t, b->control[i], b->controllen[i], b->copied);
            kr_free(b->control[i], b->controllen[i]);
        }
    for (u32 i = 0; b->to && i < b->n; i++)
        kr_addr_drop(&b->to[i]);
    if (b->to)
        kr_free(b->to, b->n * sizeof *b->to);
    if (b->control)
        kr_free(b->control, b->n * sizeof *b->control);
    if (b->controllen)
        kr_free(b->controllen, b->n * sizeof *b->controllen);
    if (b->v)
        kr_free(b->v, b->v_size);
    if (b->m)
        kr_free(b->m, b->m_size);
}

/* Copies in the address of message i. 0 or -errno. */
static long batch_name(struct kr_task *t, struct batch *b, u32 i) {
    struct kr_msghdr *h = &b->m[i].hdr;
    if (!h->name)
        return 0;
    if (!b->to) {
        b->to = kr_alloc(b->n * sizeof *b->to);
        if (!b->to)
            return -ENOMEM;
        for (u32 k = 0; k < b->n; k++)
            b->to[k].fd = -1;
    }
    name_in(t, h, &b->to[i]);
    b->odd = b->to[i].thread ? &b->to[i] : b->odd;
    return b->to[i].error;
}

/* Copies in at most n headers: those before the first unreadable one. The number of messages, or -errno. */
static long batch_in(struct kr_task *t, struct batch *b, u64 ptr, u32 n, int receive) {
    memset(b, 0, sizeof *b);
    b->n = n;
    b->copied = !receive && kr_files_shared(t);
    b->m_size = n * sizeof *b->m;
    b->m = kr_alloc(b->m_size);
    if (!b->m)
        return -ENOMEM;
    u32 have = 0;
    u64 iovs = 0;
    for (; have < n; have++) {
        struct kr_mmsghdr *m = &b->m[have];
        if (kr_copy_in(m, ptr + have * sizeof *m, sizeof *m) < 0) {
            if (!have)
                return -EFAULT;
            break;
        }
        u64 add = m->hdr.iovlen <= KR_IOV_MAX ? m->hdr.iovlen : 0;
        if (have && iovs + add > MSG_BATCH_IOVS)
            break;
        iovs += add;
    }
    u32 room = n;
    b->v_size = iovs * sizeof *b->v;
    if (iovs && !(b->v = kr_alloc(b->v_size)))
        return -ENOMEM;
    if (!receive) {
        b->control = kr_alloc(room * sizeof *b->control);
        b->controllen = kr_alloc(room * sizeof *b->controllen);
        if (!b->control || !b->controllen)
            return -ENOMEM;
    }
    struct kr_iovec *v = b->v;
    for (u32 i = 0; i < have; i++) {
        struct kr_msghdr *h = &b->m[i].hdr;
        if (receive)
            check_header(h);
        long r = receive ? 0 : batch_name(t, b, i);
        if (h->iovlen > KR_IOV_MAX || kr_copy_in(v, h->iov, h->iovlen * sizeof *v) < 0) {
            h->iov = KR_BAD_PTR; /* the kernel answers EMSGSIZE or EFAULT for this message */
        } else {
            kr_iovs_check(v, h->iovlen);
            h->iov = (u64)v;
        }
        if (h->iovlen <= KR_IOV_MAX)
            v += h->iovlen;
        if (!receive) {
            b->controllen[i] = h->controllen;
            r = r < 0 ? r : control_in(t, h, &b->control[i], NULL, 0, b->copied);
            if (r < 0) { /* an error of this message: the ones before it are sent */
                if (!i)
                    return r;
                have = i;
                break;
            }
        }
    }
    return (long)have;
}

#define MMSG_MAX ((u32)UIO_MAXIOV) /* the kernel cuts longer ones */

static long batch_send(struct kr_task *t, long nr, const u64 a[6], const struct kr_addr *odd) {
    return odd ? kr_addr_call(t, nr, a, odd) : kr_forward(nr, a);
}

static long batch_call(struct kr_task *t, long nr, const u64 a[6], int receive) {
    struct batch b;
    u32 n = KR_MIN((u32)a[2], MMSG_MAX);
    if (!n)
        return kr_call_intr(nr, a[0], KR_BAD_PTR, 0, a[3], a[4], 0);
    long have = batch_in(t, &b, a[1], n, receive), r = have;
    if (have == -EFAULT)
        r = kr_call_intr(nr, a[0], KR_BAD_PTR, n, a[3], a[4], 0);
    else if (have > 0)
        r = batch_send(t, nr, (u64[6]){a[0], (u64)b.m, (u64)have, a[3], a[4]}, b.odd);
    for (long i = 0; have > 0 && i < r; i++) {
        u64 at = a[1] + (u64)i * sizeof *b.m;
        if ((receive && header_out(at, &b.m[i].hdr) < 0) ||
            kr_copy_out(at + offsetof(struct kr_mmsghdr, len), &b.m[i].len, 4) < 0) {
            r = i ? i : -EFAULT;
            break;
        }
    }
    batch_drop(t, &b);
    return r;
}

long sys_sendmmsg(struct kr_task *t, const u64 a[6]) { return batch_call(t, __NR_sendmmsg, a, 0); }

long sys_recvmmsg(struct kr_task *t, const u64 a[6]) { return batch_call(t, __NR_recvmmsg, a, 1); }

/* ---- options ---- */

/* Options whose value contains a pointer, or makes the kernel use a pointer later. */
enum opt_how { OPT_FPROG = 1, OPT_FILTER, OPT_REFUSE };
enum { GET = 1, SET = 2 };

struct opt {
    u16 level, first, last;
    u8 dir, how, err;
};

static const struct opt special[] = {
    {1, 26, 27, SET, OPT_FILTER, 0},                   /* SO_ATTACH_FILTER, SO_DETACH_FILTER: uevent.h */
    {1, 51, 51, SET, OPT_FPROG, 0},                    /* SO_ATTACH_REUSEPORT_CBPF */
    {0, 64, 64, SET, OPT_REFUSE, ENOPROTOOPT},         /* IPT_SO_SET_REPLACE: counters */
    {0, 96, 96, SET, OPT_REFUSE, ENOPROTOOPT},         /* ARPT_SO_SET_REPLACE: counters */
    {0, 128, 131, GET | SET, OPT_REFUSE, ENOPROTOOPT}, /* EBT_SO_*: entries, counters */
    {41, 64, 64, SET, OPT_REFUSE, ENOPROTOOPT},        /* IP6T_SO_SET_REPLACE: counters */
    {6, 35, 35, GET, OPT_REFUSE, EOPNOTSUPP},     /* TCP_ZEROCOPY_RECEIVE: maps pages past the VMA array */
    {284, 4, 4, GET, OPT_REFUSE, EOPNOTSUPP},     /* MPTCP_FULL_INFO: two arrays */
    {132, 111, 111, GET, OPT_REFUSE, EOPNOTSUPP}, /* SCTP_SOCKOPT_CONNECTX3: addresses */
};

/* Levels whose other options are plain values. Other levels (RDS, XDP, ...) get what the kernel says of a level that no protocol
 * has. */
static const u16 levels[] = {
    0,        /* IP */
    1,        /* SOCKET */
    6,        /* TCP */
    17,       /* UDP */
    41,       /* IPV6 */
    58,       /* ICMPV6 */
    100,      /* CAN: BASE, RAW */
    101, 132, /* SCTP */
    136,      /* UDPLITE */
    255,      /* RAW */
    263,      /* PACKET */
    268,      /* LLC */
    269,      /* DCCP */
    270,      /* NETLINK */
    271,      /* TIPC */
    274,      /* BLUETOOTH */
    279,      /* ALG */
    281,      /* KCM */
    282,      /* TLS */
    284,      /* MPTCP */
    286,      /* SMC */
    287,      /* VSOCK */
    40,       /* AF_VSOCK, its level before SOL_VSOCK */
};

static const struct opt *find_special(u64 level, u64 name, int dir) {
    for (size_t i = 0; i < KR_COUNT(special); i++) {
        const struct opt *o = &special[i];
        if (o->level == (u32)level && o->first <= (u32)name && (u32)name <= o->last && (o->dir & dir))
            return o;
    }
    return NULL;
}

static int known_level(u64 level) {
    for (size_t i = 0; i < KR_COUNT(levels); i++)
        if (levels[i] == (u32)level)
            return 1;
    return 0;
}

#define NO_LEVEL 0x7fff /* of no protocol */

/* The answer to an option that is not passed on: the kernel's for a level that no protocol has (it judges descriptor and
 * protocol). err: what a socket gets; 0: that answer. */
static long without_option(long nr, const u64 a[6], u8 err) {
    u64 length = nr == __NR_setsockopt ? a[4] : 0;
    long r = kr_call_intr(nr, a[0], NO_LEVEL, 0, 0, length, 0);
    return err && r != -EBADF && r != -ENOTSOCK ? -(long)err : r;
}

long sys_setsockopt(struct kr_task *t, const u64 a[6]) {
    const struct opt *o = find_special(a[1], a[2], SET);
    if (o && o->how == OPT_FILTER &&
        ((u32)a[2] == 27 ? (s32)a[4] >= 4 : (u32)a[4] == sizeof(struct kr_fprog)))
        return kr_uevent_filter(t, a); /* with another length the kernel gives EINVAL */
    /* PACKET_FANOUT_DATA takes a classic filter or the descriptor of an extended one; the length tells. */
    int fprog = (o && o->how == OPT_FPROG) || ((u32)a[1] == 263 && (u32)a[2] == 22);
    if (fprog) {
        struct kr_fprog f;
        if ((u32)a[4] != sizeof f) /* EINVAL, or no filter */
            return kr_forward(__NR_setsockopt, a);
        u64 value = kr_fprog_in(&f, a[3]) < 0 ? KR_BAD_PTR : (u64)&f;
        return kr_call_intr(__NR_setsockopt, a[0], a[1], a[2], value, sizeof f, 0);
    }
    if (o && o->how == OPT_REFUSE)
        return without_option(__NR_setsockopt, a, o->err);
    return known_level(a[1]) ? kr_forward(__NR_setsockopt, a) : without_option(__NR_setsockopt, a, 0);
}

long sys_getsockopt(struct kr_task *t, const u64 a[6]) {
    (void)t;
    const struct opt *o = find_special(a[1], a[2], GET);
    if (o)
        return without_option(__NR_getsockopt, a, o->err);
    return known_level(a[1]) ? kr_forward(__NR_getsockopt, a) : without_option(__NR_getsockopt, a, 0);
}
