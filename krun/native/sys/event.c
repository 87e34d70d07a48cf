/* SPDX-License-Identifier: Apache-2.0
 *
 * signalfd, mq_notify. (timerfd, eventfd and epoll are forwarded by their rows.) No state, no locks.
 */
#include "table.h"
#include "../process/signal.h"
#include <asm/siginfo.h>
#include <asm/signal.h>

/* fd is signed here: -1 asks for a new descriptor. */
static long signal_fd(u64 fd, u64 mask_ptr, u64 size, u64 flags) {
    kr_sigset mask;
    if (size != sizeof mask)
        return -EINVAL;
    if (kr_copy_in(&mask, mask_ptr, sizeof mask) < 0)
        return -EFAULT;
    mask &= ~(KR_SIGBIT(SIGSEGV) |
              KR_SIGBIT(SIGBUS)); /* never blocked on the host: they would not wait for a read */
    return kr_call_intr(__NR_signalfd4, fd, (u64)&mask, sizeof mask, flags, 0, 0);
}

long sys_signalfd(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return signal_fd(a[0], a[1], a[2], 0);
}

long sys_signalfd4(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return signal_fd(a[0], a[1], a[2], a[3]);
}

struct sigevent_k {
    u64 value;
    s32 signo, notify;
    u8 rest[48];
};
_Static_assert(sizeof(struct sigevent_k) == 64, "struct sigevent");

long sys_mq_notify(struct kr_task *t, const u64 a[6]) {
    (void)t;
    struct sigevent_k e;
    if (!a[1])
        return kr_forward(__NR_mq_notify, a);
    if (kr_copy_in(&e, a[1], sizeof e) < 0)
        return -EFAULT;
    if (e.notify == SIGEV_THREAD /* value points at a cookie of 32 bytes, signo is a netlink socket */) {
        e.value = kr_guest_ptr(e.value, 32);
        e.signo = kr_guest_fd((u32)e.signo);
    }
    return kr_call_intr(__NR_mq_notify, a[0], (u64)&e, 0, 0, 0, 0);
}
