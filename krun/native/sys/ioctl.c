/* SPDX-License-Identifier: Apache-2.0
 *
 * ioctl by a table of known requests. No state, no locks.
 *
 * A pointer argument is safe if its start lies in the window: structures are small, and a gap of terabytes
 * follows the window (machine/layout.h). A structure with pointers inside is not safe. An unknown request may
 * have one: KVM, vhost, VFIO, DRM, SG_IO, btrfs and many others let the kernel read or write any address of
 * the monitor. Therefore a request that is not listed gets ENOTTY, as from a device that does not know it.
 */
#include "../filter/above.h"
#include "nested.h"
#include "../machine/fdtab.h"
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/loop.h>
#include <linux/sockios.h>

enum how {
    PTR = 1, /* pointer to a structure without pointers, or nothing */
    VAL,     /* a number of 32 bits */
    FDNUM,   /* a descriptor */
    NUMBER,  /* no argument; the request changes the number, not the file: kr_fd_call */
    OWN,     /* a structure with pointers or descriptors: a function below */
};
enum form { ANY, RAW, ENC }; /* RAW: upper 16 bits zero. ENC: direction and size are encoded there. */

struct request {
    u16 first, last; /* type and number: the lower 16 bits */
    u8 how, form;
};

static const struct request requests[] = {
    /* Terminals, and what all files know (asm/ioctls.h). */
    {0x5409, 0x540b, VAL, RAW},    /* TCSBRK, TCXONC, TCFLSH */
    {0x540e, 0x540e, VAL, RAW},    /* TIOCSCTTY */
    {0x5425, 0x5425, VAL, RAW},    /* TCSBRKP */
    {0x5441, 0x5441, VAL, RAW},    /* TIOCGPTPEER */
    {0x545c, 0x545c, VAL, RAW},    /* TIOCMIWAIT */
    {0x5450, 0x5451, NUMBER, RAW}, /* FIONCLEX, FIOCLEX */
    {0x5400, 0x54ff, PTR, RAW},
    {0x5400, 0x5400, PTR, ENC}, /* TFD_IOC_SET_TICKS */
    {0x542a, 0x5443, PTR, ENC}, /* TCGETS2 .. TIOCSISO7816 */
    {0x54c8, 0x54ca, PTR, ENC}, /* TUNSETNOCSUM .. TUNSETIFF */
    {0x54cb, 0x54cd, VAL, ENC}, /* TUNSETPERSIST, TUNSETOWNER, TUNSETLINK */
    {0x54ce, 0x54ce, VAL, ENC}, /* TUNSETGROUP */
    {0x54cf, 0x54cf, PTR, ENC}, /* TUNGETFEATURES */
    {0x54d0, 0x54d0, VAL, ENC}, /* TUNSETOFFLOAD */
    {0x54d1, 0x54d4, PTR, ENC}, /* TUNSETTXFILTER .. TUNSETSNDBUF */
    {0x54d5, 0x54d5, OWN, ENC}, /* TUNATTACHFILTER */
    {0x54d6, 0x54e2, PTR, ENC}, /* TUNDETACHFILTER .. TUNSETCARRIER */

    /* Sockets (linux/sockios.h). */
    {0x8901, 0x8907, PTR, ANY},
    {0x890b, 0x890c, OWN, RAW}, /* SIOCADDRT, SIOCDELRT */
    {0x8910, 0x8911, PTR, RAW},
    {0x8912, 0x8912, OWN, RAW}, /* SIOCGIFCONF */
    {0x8913, 0x8938, PTR, RAW},
    {0x8942, 0x8943, PTR, RAW},
    {0x8946, 0x8946, OWN, RAW}, /* SIOCETHTOOL */
    {0x8947, 0x8949, PTR, RAW},
    {0x894b, 0x894c, PTR, RAW}, /* SIOCOUTQNSD, SIOCGSKNS */
    {0x8953, 0x8955, PTR, RAW},
    {0x8970, 0x8971, PTR, RAW},
    {0x8982, 0x8983, PTR, RAW},
    {0x8990, 0x8992, PTR, RAW},
    {0x8993, 0x8994, OWN, RAW}, /* SIOCBONDSLAVEINFOQUERY, SIOCBONDINFOQUERY */
    {0x8995, 0x8995, PTR, RAW},
    {0x89a0, 0x89a3, PTR, RAW},
    {0x89b0, 0x89b1, OWN, RAW}, /* SIOCSHWTSTAMP, SIOCGHWTSTAMP */
    {0x89e0, 0x89e2, PTR, RAW}, /* SIOCUNIXFILE, SIOCGETVIFCNT and relatives */
    {0x07b9, 0x07b9, PTR, RAW}, /* IOCTL_VM_SOCKETS_GET_LOCAL_CID */

    /* Files and filesystems. */
    {0x0001, 0x0002, PTR, RAW},   /* FIBMAP, FIGETBSZ */
    {0x1500, 0x1501, PTR, ENC},   /* FS_IOC_GETFSUUID, FS_IOC_GETFSSYSFSPATH */
    {0x581f, 0x5820, PTR, ENC},   /* FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR */
    {0x5877, 0x5879, PTR, ENC},   /* FIFREEZE, FITHAW, FITRIM */
    {0x6601, 0x6604, PTR, ENC},   /* FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, ext4's version */
    {0x660b, 0x660b, PTR, ENC},   /* FS_IOC_FIEMAP */
    {0x6610, 0x6610, OWN, ENC},   /* EXT4_IOC_RESIZE_FS */
    {0x6613, 0x661b, PTR, ENC},   /* fscrypt */
    {0x6686, 0x6686, PTR, ENC},   /* FS_IOC_MEASURE_VERITY; its neighbours hold pointers */
    {0x7210, 0x7213, PTR, ENC},   /* FAT attributes and volume id */
    {0x7601, 0x7602, PTR, ENC},   /* FS_IOC_GETVERSION, FS_IOC_SETVERSION */
    {0x9409, 0x9409, FDNUM, ENC}, /* FICLONE */
    {0x940d, 0x940d, OWN, ENC},   /* FICLONERANGE */
    {0x9431, 0x9432, PTR, ENC},   /* FS_IOC_GETFSLABEL, FS_IOC_SETFSLABEL */
    {0x9436, 0x9436, OWN, ENC},   /* FIDEDUPERANGE */

    /* Descriptors that are not files. */
    {0x4900, 0x4900, VAL, ENC}, /* INOTIFY_IOC_SETNEXTWD */
    {0x5760, 0x5760, VAL, RAW}, /* IOC_WATCH_QUEUE_SET_SIZE */
    {0x5761, 0x5761, PTR, RAW}, /* IOC_WATCH_QUEUE_SET_FILTER */
    {0x8a01, 0x8a02, PTR, ENC}, /* EPIOCSPARAMS, EPIOCGPARAMS */
    {0xb701, 0xb70d, PTR, ANY}, /* NS_GET_* */
    {0xff01, 0xff14, PTR, ANY}, /* PIDFD_GET_* */
    {0xe500, 0xe500, PTR, ENC}, /* FUSE_DEV_IOC_CLONE */
    {0x5200, 0x5208, PTR, ANY}, /* /dev/random */

    /* Block devices and disks, loop devices. */
    {0x0301, 0x0301, PTR, RAW}, /* HDIO_GETGEO */
    {0x1262, 0x1262, VAL, RAW}, /* BLKRASET */
    {0x1264, 0x1264, VAL, RAW}, /* BLKFRASET */
    {0x1266, 0x1266, VAL, RAW}, /* BLKSECTSET */
    {0x125d, 0x1268, PTR, RAW},
    {0x1270, 0x1272, PTR, ENC},   /* BLKBSZGET, BLKBSZSET, BLKGETSIZE64 */
    {0x1277, 0x127f, PTR, RAW},   /* BLKDISCARD .. BLKZEROOUT */
    {0x1280, 0x1280, PTR, ENC},   /* BLKGETDISKSEQ */
    {0x4c00, 0x4c00, FDNUM, RAW}, /* LOOP_SET_FD */
    {0x4c06, 0x4c06, FDNUM, RAW}, /* LOOP_CHANGE_FD */
    {0x4c08, 0x4c09, VAL, RAW},   /* LOOP_SET_DIRECT_IO, LOOP_SET_BLOCK_SIZE */
    {0x4c0a, 0x4c0a, OWN, RAW},   /* LOOP_CONFIGURE */
    {0x4c01, 0x4c07, PTR, RAW},
    {0x4c80, 0x4c82, VAL, RAW}, /* LOOP_CTL_* */

    /* Virtual consoles. */
    {0x4b2f, 0x4b30, VAL, RAW},
    {0x4b31, 0x4b31, PTR, RAW},
    {0x4b32, 0x4b32, VAL, RAW},
    {0x4b33, 0x4b33, PTR, RAW},
    {0x4b3a, 0x4b3a, VAL, RAW},
    {0x4b3b, 0x4b3b, PTR, RAW},
    {0x4b44, 0x4b44, PTR, RAW},
    {0x4b45, 0x4b45, VAL, RAW},
    {0x4b46, 0x4b47, PTR, RAW},
    {0x4b64, 0x4b64, PTR, RAW},
    {0x4b65, 0x4b65, VAL, RAW},
    {0x5604, 0x5608, VAL, RAW},
    {0x5600, 0x560f, PTR, RAW},
};

u32 kr_ioctl_ranges(struct kr_range *out, u32 max, int encoded) {
    u32 n = 0;
    for (size_t i = 0; i < KR_COUNT(requests) && n < max; i++)
        if (requests[i].form == ANY || (requests[i].form == ENC) == encoded)
            out[n++] = (struct kr_range){requests[i].first, requests[i].last};
    return kr_ranges_join(out, n);
}

/* struct ifreq with ifr_data: the kernel reads or writes a small structure there. */
struct ifreq_k {
    char name[16];
    u64 data;
    u8 rest[16];
};
_Static_assert(sizeof(struct ifreq_k) == 40, "struct ifreq");

static long with_ifr_data(const u64 a[6]) {
    struct ifreq_k q;
    if (kr_copy_in(&q, a[2], sizeof q) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    u64 guest = q.data;
    q.data = kr_guest_ptr(q.data, 1);
    long r = kr_call_intr(__NR_ioctl, a[0], a[1], (u64)&q, 0, 0, 0);
    q.data = guest;
    if (r >= 0 && kr_copy_out(a[2], &q, sizeof q) < 0)
        return -EFAULT;
    return r;
}

static long interface_list(const u64 a[6]) {
    struct {
        s32 len, pad;
        u64 buf;
    } c;
    if (kr_copy_in(&c, a[2], sizeof c) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    if (c.buf) /* NULL asks for the length */
        c.buf = kr_guest_ptr(c.buf, c.len < 0 ? 1 : (u64)c.len);
    long r = kr_call_intr(__NR_ioctl, a[0], a[1], (u64)&c, 0, 0, 0);
    if (r >= 0 && kr_copy_out(a[2], &c.len, sizeof c.len) < 0)
        return -EFAULT;
    return r;
}

/* IPv4's struct rtentry ends with a device name's pointer; IPv6's in6_rtmsg is shorter and has none. */
#define RTENTRY_SIZE 120
#define RTENTRY_DEV 88
#define IN6_RTMSG_SIZE 80

static long route(const u64 a[6]) {
    u8 e[RTENTRY_SIZE] = {0};
    if (kr_copy_in(e, a[2], sizeof e) < 0 && kr_copy_in(e, a[2], IN6_RTMSG_SIZE) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    u64 dev;
    memcpy(&dev, e + RTENTRY_DEV, 8);
    if (dev)
        dev = kr_guest_ptr(dev, 1);
    memcpy(e + RTENTRY_DEV, &dev, 8);
    return kr_call_intr(__NR_ioctl, a[0], a[1], (u64)e, 0, 0, 0);
}

static long clone_range(const u64 a[6]) {
    s64 v[4]; /* source descriptor, offset, length, destination offset */
    if (kr_copy_in(v, a[2], sizeof v) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    v[0] = kr_guest_fd((u64)v[0]);
    return kr_call_intr(__NR_ioctl, a[0], a[1], (u64)v, 0, 0, 0);
}

struct dedupe_target {
    s64 fd;
    u64 offset, done;
    s32 status;
    u32 reserved;
};
struct dedupe {
    u64 offset, length;
    u16 count, reserved1;
    u32 reserved2;
    struct dedupe_target target[];
};
#define DEDUPE_MAX                                                                                           \
    ((KR_PAGE - sizeof(struct dedupe)) / sizeof(struct dedupe_target)) /* the kernel's bound: a page */

static long dedupe_range(const u64 a[6]) {
    struct dedupe head;
    if (kr_copy_in(&head, a[2], sizeof head) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    if (head.count > DEDUPE_MAX)
        return -ENOMEM;
    size_t size = sizeof head + head.count * sizeof(struct dedupe_target);
    struct dedupe *d = kr_alloc(size);
    if (!d)
        return -ENOMEM;
    *d = head;
    long r = kr_copy_in(d->target, a[2] + sizeof head, size - sizeof head);
    for (u32 i = 0; r == 0 && i < head.count; i++)
        d->target[i].fd = kr_guest_fd((u64)d->target[i].fd);
    if (r == 0)
        r = kr_call_intr(__NR_ioctl, a[0], a[1], (u64)d, 0, 0, 0);
    for (u32 i = 0; r >= 0 && i < head.count; i++) {
        u64 at = a[2] + sizeof head + i * sizeof *d->target;
        if (kr_copy_out(at + offsetof(struct dedupe_target, done), &d->target[i].done, 8) < 0 ||
            kr_copy_out(at + offsetof(struct dedupe_target, status), &d->target[i].status, 4) < 0)
            r = -EFAULT;
    }
    kr_free(d, size);
    return r;
}

/* EXT4_IOC_RESIZE_FS takes a number of blocks. PAGEMAP_SCAN of a procfs has the same type and number, and a pointer in its
 * structure of 96 bytes: there the copy has a null pointer. */
static long resize(const u64 a[6]) {
    u64 arg[16] = {0};
    if (kr_copy_in(arg, a[2], sizeof *arg) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    return kr_call_intr(__NR_ioctl, a[0], a[1], (u64)arg, 0, 0, 0);
}

static long loop_configure(const u64 a[6]) {
    struct {
        u32 fd, block_size;
        u8 info[232], reserved[64];
    } c;
    if (kr_copy_in(&c, a[2], sizeof c) < 0)
        return kr_call_intr(__NR_ioctl, a[0], a[1], KR_BAD_PTR, 0, 0, 0);
    c.fd = (u32)kr_guest_fd(c.fd);
    return kr_call_intr(__NR_ioctl, a[0], a[1], (u64)&c, 0, 0, 0);
}

static long refuse(const u64 a[6]) {
    long r = kr_sys3(__NR_fcntl, a[0], F_GETFD, 0);
    return r < 0 ? r : -ENOTTY;
}

#define LOW(request) ((request)&0xffff) /* type and number */
#define EXT4_RESIZE_FS 0x6610           /* LOW(EXT4_IOC_RESIZE_FS), fs/ext4/ext4.h */

static long own(const u64 a[6]) {
    struct kr_fprog f;
    switch (LOW((u32)a[1])) {
    case LOW(TUNATTACHFILTER):
        return kr_call_intr(__NR_ioctl, a[0], a[1], kr_fprog_in(&f, a[2]) < 0 ? KR_BAD_PTR : (u64)&f, 0, 0,
                            0);
    case SIOCADDRT:
    case SIOCDELRT:
        return route(a);
    case SIOCGIFCONF:
        return interface_list(a);
    case SIOCETHTOOL:
    case SIOCBONDSLAVEINFOQUERY:
    case SIOCBONDINFOQUERY:
    case SIOCSHWTSTAMP:
    case SIOCGHWTSTAMP:
        return with_ifr_data(a);
    case LOW(FICLONERANGE):
        return clone_range(a);
    case LOW(FIDEDUPERANGE):
        return dedupe_range(a);
    case EXT4_RESIZE_FS:
        return resize(a);
    case LOOP_CONFIGURE:
        return loop_configure(a);
    }
    return refuse(a);
}

long sys_ioctl(struct kr_task *t, const u64 a[6]) {
    (void)t;
    u32 request = (u32)a[1];
    u16 low = (u16)request;
    int encoded = request >> 16 != 0;
    for (size_t i = 0; i < KR_COUNT(requests); i++) {
        const struct request *q = &requests[i];
        if (low < q->first || low > q->last || (q->form == RAW && encoded) || (q->form == ENC && !encoded))
            continue;
        u64 arg;
        switch (q->how) {
        case OWN:
            return own(a);
        case NUMBER:
            return kr_fd_call(a[0], __NR_ioctl, request, 0);
        case VAL:
            arg = (u64)(s64)(s32)a[2];
            break;
        case FDNUM:
            arg = (u32)kr_guest_fd(a[2]);
            break;
        default: /* a null pointer and small numbers stay what they are */
            arg = kr_guest_ptr(a[2], request >> 16 & 0x3fff);
            break;
        }
        return kr_call_intr(__NR_ioctl, a[0], request, arg, 0, 0, 0);
    }
    return refuse(a);
}
