/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: clone3(2), unshare(2), setns(2), names of the UTS namespace, the loopback device. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define KR_NS_GET_USERNS 0xb701 /* _IO(0xb7, 1), linux/nsfs.h */
#define KR_NS_GET_NSTYPE 0xb703 /* _IO(0xb7, 3), linux/nsfs.h */

/*
 * Our arguments and environment, which the kernel shows as /proc/PID/cmdline to everybody and as environ to whoever may
 * trace us. The child's memory is a copy, and a container's processes see the child from its birth. So the words are blank
 * while a process is made, and the parent puts them back. A process that was made so has none, and makes others without looking
 * for them: it may be where there is no /proc.
 */
static int words_hidden;

struct words {
    char *start[2];
    size_t size[2];
    char *kept; /* both, one behind the other; NULL: they were hidden before */
};

/* Fields 48 to 51 of /proc/self/stat: where arguments and environment begin and end. Returns 0 or -errno. */
static int find_words(struct words *w) {
    char text[2048], *at;
    unsigned long field[4];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    at = strrchr(text, ')'); /* the name may hold any character */
    for (int i = 2; at && i < 48; i++)
        at = strchr(at + 1, ' ');
    for (int i = 0; at && i < 4; i++)
        field[i] = strtoul(at, &at, 10);
    for (int i = 0; at && i < 2; i++) {
        if (!field[2 * i] || field[2 * i + 1] < field[2 * i])
            return -EIO;
        w->start[i] = (char *)field[2 * i];
        w->size[i] = field[2 * i + 1] - field[2 * i];
    }
    return at ? 0 : -EIO;
}

/* Returns 0 or -errno: no child is made then that would show them. */
static int hide_words(struct words *w) {
    static const char name[] = "krun";
    int r;

    w->kept = NULL;
    if (words_hidden)
        return 0;
    r = find_words(w);
    if (r < 0)
        return r;
    w->kept = malloc(w->size[0] + w->size[1] + 1);
    if (!w->kept)
        return -ENOMEM;
    for (int i = 0; i < 2; i++) {
        memcpy(w->kept + (i ? w->size[0] : 0), w->start[i], w->size[i]);
        memset(w->start[i], 0, w->size[i]);
    }
    if (w->size[0] >= sizeof(name))
        memcpy(w->start[0], name, sizeof(name));
    words_hidden = 1;
    return 0;
}

static void show_words(struct words *w) {
    if (!w->kept)
        return;
    words_hidden = 0;
    for (int i = 0; i < 2; i++)
        memcpy(w->start[i], w->kept + (i ? w->size[0] : 0), w->size[i]);
    free(w->kept);
}

/*
 * A copy of the calling process in the namespaces of `flags` (CLONE_NEW*, CLONE_PARENT), without its arguments and
 * environment. Returns 0 in the child, which goes on with a copy of the stack, and the pid in the parent; *pidfd is set when
 * `pidfd` is not NULL. Neither glibc's nor Python's fork handlers run: call it with one thread only.
 */
int kr_clone3(uint64_t flags, int exit_signal, int cgroup_fd, int *pidfd) {
    struct clone_args args;
    struct words words;
    int r;

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
    r = hide_words(&words);
    if (r < 0)
        return r;
    r = (int)KR_CALL(SYS_clone3, &args, sizeof(args));
    if (r)
        show_words(&words);
    return r;
}

/* A call that touches neither errno nor the stack: for a process that shares both with its parent. */
static inline long raw_call(long nr, long a, long b, long c) {
    long r;

    __asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}

/* Closes every descriptor from 3 on except the `count` ascending ones of `keep`. Returns 0 or -errno. */
static long close_others(const int *keep, unsigned int count) {
    long low = 3, r;

    for (unsigned int i = 0; i < count; i++) {
        r = keep[i] > low ? raw_call(SYS_close_range, low, keep[i] - 1, 0) : 0;
        if (r < 0)
            return r;
        low = keep[i] + 1;
    }
    return raw_call(SYS_close_range, low, 0xffffffff, 0);
}

/* The part of kr_clone_inside between its two clones. Returns what clone3(2) does, twice. */
static long enter_and_clone(struct clone_args *args, int root_fd, int pid_ns, int others, int joins,
                            const int *keep, unsigned int count, int *where) {
    long r = 0;

    *where = 1;
    if (root_fd >= 0)
        r = raw_call(SYS_fchdir, root_fd, 0, 0);
    if (root_fd >= 0 && r == 0)
        r = raw_call(SYS_chroot, (long)".", 0, 0);
    if (r < 0)
        return r;
    *where = 2;
    r = raw_call(SYS_setns, pid_ns, CLONE_NEWPID, 0);
    if (r < 0)
        return r;
    *where = 5;
    r = joins ? raw_call(SYS_setns, others, joins, 0) : 0;
    if (r < 0)
        return r;
    *where = 3;
    r = close_others(keep, count);
    if (r < 0)
        return r;
    *where = 4;
    return raw_call(SYS_clone3, (long)args, sizeof(*args), 0);
}

/*
 * As kr_clone3, for a process that is born inside a container: in the pid namespace `pid_ns` (a pidfd or a
 * namespace's descriptor), those namespaces of `others` (the same) that `joins` names (CLONE_NEW*), and the cgroup `cgroup_fd`
 * (-1: ours), with `root_fd` as its root and working directory (-1: ours; a mount namespace that is joined decides itself), and with
 * no descriptor besides stdio and `keep` (ascending). So the container's processes never see one of ours that still holds something
 * of the host's (CVE-2024-21626): who may trace it would enter its namespaces (setns(2)). And /proc/PID/net, which everybody may
 * read, is the container's.
 *
 * A process in between takes the steps, because it cannot leave what it enters, and because the child must
 * not inherit cgroup_fd, a directory of the host. It shares our memory and stack, we wait until it has ended
 * (CLONE_VM, CLONE_VFORK), and the new process becomes our child (CLONE_PARENT). Returns as kr_clone3; on
 * failure *where is 0 or 4 clone3, 1 root, 2 pid namespace, 3 descriptors, 5 the other namespaces. One thread only.
 */
int kr_clone_inside(uint64_t flags, int exit_signal, int cgroup_fd, int root_fd, int pid_ns, int others,
                    int joins, const int *keep, unsigned int count, int *where) {
    struct clone_args between, args;
    struct words words;
    volatile long made = -ECHILD;
    long pid;

    memset(&between, 0, sizeof(between));
    memset(&args, 0, sizeof(args));
    between.flags = CLONE_VM | CLONE_VFORK;
    between.exit_signal = (uint64_t)exit_signal; /* with CLONE_PARENT it is the child's, too (clone(2)) */
    if (cgroup_fd >= 0) {
        between.flags |= CLONE_INTO_CGROUP;
        between.cgroup = (uint64_t)cgroup_fd;
    }
    args.flags = flags | CLONE_PARENT;
    *where = 0;
    pid = hide_words(&words);
    if (pid < 0)
        return (int)pid;
    pid = raw_call(SYS_clone3, (long)&between, sizeof(between), 0);
    if (pid == 0) {
        long r = enter_and_clone(&args, root_fd, pid_ns, others, joins, keep, count, where);

        if (r == 0)
            return 0; /* the new process, with a stack of its own */
        made = r;
        for (;;)
            raw_call(SYS_exit_group, 0, 0, 0);
    }
    show_words(&words);
    if (pid < 0)
        return (int)pid;
    while (KR_CALL(SYS_wait4, pid, NULL, __WALL, NULL) == -EINTR)
        ;
    return (int)made;
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

/*
 * Whether a namespace of ours, `path` below the procfs `proc`, belongs to a user namespace below our own: 1, 0 or -errno. The kernel
 * tells the owner only if that is our user namespace or one below it, else EPERM (ioctl_ns(2)).
 */
int kr_ns_below(int proc, const char *path) {
    struct stat owner, own;
    int fd = (int)KR_CALL(SYS_openat, proc, path, O_RDONLY | O_CLOEXEC, 0), user, r = 0;

    if (fd < 0)
        return fd;
    user = (int)KR_CALL(SYS_ioctl, fd, KR_NS_GET_USERNS);
    close(fd);
    if (user < 0)
        return user == -EPERM ? 0 : user;
    if (fstat(user, &owner) < 0 || fstatat(proc, "self/ns/user", &own, 0) < 0)
        r = -errno;
    close(user);
    return r ? r : owner.st_dev != own.st_dev || owner.st_ino != own.st_ino;
}
