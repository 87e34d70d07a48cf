/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: clone3(2), unshare(2), setns(2), names of the UTS namespace, the loopback device. */
#include "host.h"

#include <linux/sched.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define KR_NS_GET_NSTYPE 0xb703 /* _IO(0xb7, 3), linux/nsfs.h */

/*
 * A copy of the calling process in the namespaces of `flags` (CLONE_NEW*, CLONE_PARENT). Returns 0 in the
 * child, which goes on with a copy of the stack, and the pid in the parent; *pidfd is set when `pidfd` is not
 * NULL. Neither glibc's nor Python's fork handlers run: call it with one thread only.
 */
int kr_clone3(uint64_t flags, int exit_signal, int cgroup_fd, int *pidfd) {
    struct clone_args args;

    memset(&args, 0, sizeof(args));
    args.flags = flags;
    args.exit_signal = (uint64_t)exit_signal;
    if (pidfd) {
        args.flags |= CLONE_PIDFD;
        args.pidfd = (uint64_t)(uintptr_t)pidfd;
    }
    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    return (int)KR_CALL(SYS_clone3, &args, sizeof(args));
}

int kr_unshare(unsigned long flags) { return (int)KR_CALL(SYS_unshare, flags); }

int kr_setns(int fd, int nstype) { return (int)KR_CALL(SYS_setns, fd, nstype); }

int kr_sethostname(const char *name, size_t len) { return (int)KR_CALL(SYS_sethostname, name, len); }

int kr_setdomainname(const char *name, size_t len) { return (int)KR_CALL(SYS_setdomainname, name, len); }

/* Sets the loopback device of the calling process's network namespace up (netdevice(7)). */
int kr_loopback_up(void) {
    struct ifreq req;
    long r;
    int fd = (int)KR_CALL(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return fd;
    memset(&req, 0, sizeof(req));
    memcpy(req.ifr_name, "lo", 3);
    req.ifr_flags = IFF_UP | IFF_RUNNING;
    r = KR_CALL(SYS_ioctl, fd, SIOCSIFFLAGS, &req);
    close(fd);
    return (int)r;
}

/* CLONE_NEW* of the namespace that `fd` (an open /proc/PID/ns file) stands for (ioctl_ns(2)). */
int kr_nstype(int fd) { return (int)KR_CALL(SYS_ioctl, fd, KR_NS_GET_NSTYPE); }
