/* SPDX-License-Identifier: Apache-2.0
 *
 * poll, select, epoll waits. The monitor checks and passes a copy of each set, so no other thread of the
 * payload can add a hidden descriptor after the check. No state, no locks.
 */
#include "nested.h"
#include "../process/signal.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../process/above.h"
#include <asm/poll.h>

struct pollfd_k {
    s32 fd;
    u16 events, revents;
};

/* A bound for the copy. The kernel answers EINVAL above RLIMIT_NOFILE. */
#define POLL_MAX (1u << 21)
#define FEW 64

/* poll or ppoll. nr, timeout, mask, mask_size: of the host call. */
static long poll_with(struct kr_task *t, long nr, u64 ptr, u64 count, u64 timeout, u64 mask, u64 mask_size) {
    struct pollfd_k few[FEW], *p;
    u32 n = (u32)count;
    if (n > POLL_MAX)
        return -EINVAL;
    size_t size = n * sizeof *p;
    p = kr_temp(few, sizeof few, size);
    if (!p)
        return -ENOMEM;
    long r = -EFAULT;
    if (kr_copy_in(p, ptr, size) < 0)
        goto out;
    for (u32 i = 0; i < n; i++)
        if (p[i].fd >= 0)
            p[i].fd = kr_guest_fd((u32)p[i].fd);
    r = kr_call_intr(nr, (u64)p, n, timeout, mask, mask_size, 0);
    if (r < 0)
        goto out;
    for (u32 i = 0; i < n; i++) { /* only revents is written, as the kernel does */
        if (kr_copy_out(ptr + i * sizeof *p + offsetof(struct pollfd_k, revents), &p[i].revents,
                        sizeof p[i].revents) < 0) {
            r = -EFAULT;
            break;
        }
        if (t->mm->sockets && p[i].fd >= 0 && p[i].revents)
            kr_sockets_ready(t, p[i].fd, p[i].revents);
    }
out:
    kr_temp_drop(p, few, size);
    return r;
}

long sys_poll(struct kr_task *t, const u64 a[6]) { return poll_with(t, __NR_poll, a[0], a[1], a[2], 0, 0); }

long sys_ppoll(struct kr_task *t, const u64 a[6]) {
    kr_sigset host;
    long r = kr_wait_mask_begin(t, a[3], a[4], &host);
    if (r < 0)
        return r;
    int masked = r == 0;
    r = poll_with(t, __NR_ppoll, a[0], a[1], a[2], masked ? (u64)&host : 0, 8);
    if (masked)
        kr_wait_mask_end(t);
    return r;
}

/* ---- select ---- */

#define SELECT_MAX POLL_MAX

/* Copies one set in to s (bytes long). 0, -EFAULT, or -EBADF if it contains a hidden descriptor. */
static long set_in(u64 *s, u64 ptr, size_t bytes, u32 nfds) {
    if (kr_copy_in(s, ptr, bytes) < 0)
        return -EFAULT;
    for (u32 w = 0; w < bytes / 8; w++) {
        for (u64 left = s[w]; left; left &= left - 1) {
            u32 fd = w * 64 + (u32)__builtin_ctzll(left);
            if (fd < nfds && kr_fd_hidden(fd))
                return -EBADF;
        }
    }
    return 0;
}

/* Tells which descriptors of the copied set are ready for reading. */
static void readable(struct kr_task *t, const u64 *set, size_t bytes) {
    for (u32 w = 0; w < bytes / 8; w++)
        for (u64 left = set[w]; left; left &= left - 1)
            kr_sockets_ready(t, (s32)(w * 64 + (u32)__builtin_ctzll(left)), POLLIN);
}

static long select_with(struct kr_task *t, long nr, const u64 a[6], u64 last) {
    u64 few[3 * FEW / 4];
    int n = (int)a[0];
    if (n < 0)
        return -EINVAL;
    u32 nfds = KR_MIN((u32)n, SELECT_MAX);
    size_t bytes = (nfds + 63) / 64 * 8, size = 3 * bytes;
    u64 *s = kr_temp(few, sizeof few, size), host[3];
    if (!s)
        return -ENOMEM;
    long r = 0;
    for (int i = 0; i < 3 && r == 0; i++) {
        u64 *set = s + i * (bytes / 8);
        host[i] = a[1 + i] ? (u64)set : 0;
        if (a[1 + i])
            r = set_in(set, a[1 + i], bytes, nfds);
    }
    if (r == 0)
        r = kr_call_intr(nr, nfds, host[0], host[1], host[2], a[4], last);
    for (int i = 0; i < 3 && r >= 0; i++)
        if (host[i] && kr_copy_out(a[1 + i], (void *)host[i], bytes) < 0)
            r = -EFAULT;
    if (r > 0 && host[0] && t->mm->sockets)
        readable(t, (const u64 *)host[0], bytes);
    kr_temp_drop(s, few, size);
    return r;
}

long sys_select(struct kr_task *t, const u64 a[6]) { return select_with(t, __NR_select, a, 0); }

long sys_pselect6(struct kr_task *t, const u64 a[6]) {
    struct {
        u64 mask, size;
    } guest = {0, 0}, host = {0, 8};
    if (a[5] && kr_copy_in(&guest, a[5], sizeof guest) < 0)
        return -EFAULT;
    kr_sigset mask;
    long r = kr_wait_mask_begin(t, guest.mask, guest.size, &mask);
    if (r < 0)
        return r;
    int masked = r == 0;
    if (masked)
        host.mask = (u64)&mask;
    r = select_with(t, __NR_pselect6, a, (u64)&host);
    if (masked)
        kr_wait_mask_end(t);
    return r;
}

/* ---- epoll ---- */

static long epoll_masked(long nr, struct kr_task *t, const u64 a[6]) {
    kr_sigset host;
    long r = kr_wait_mask_begin(t, a[4], a[5], &host);
    if (r < 0)
        return r;
    int masked = r == 0;
    r = kr_call_intr(nr, a[0], a[1], a[2], a[3], masked ? (u64)&host : 0, 8);
    if (masked)
        kr_wait_mask_end(t);
    return r;
}

long sys_epoll_pwait(struct kr_task *t, const u64 a[6]) { return epoll_masked(__NR_epoll_pwait, t, a); }
long sys_epoll_pwait2(struct kr_task *t, const u64 a[6]) { return epoll_masked(__NR_epoll_pwait2, t, a); }
