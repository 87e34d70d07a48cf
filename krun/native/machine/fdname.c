/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that calls of the payload name, and how a descriptor of the monitor's keeps away from them.
 *
 * A call names a number from before its check to its return (kr_fd_name). The kernel looks the number up at some
 * time between the two. If the number became the monitor's after the check, the call would use or close a
 * descriptor of the monitor's. So the maker of a descriptor opens the range of the table first: from then on every check
 * waits for fdtab_lock. Then it reads what the calls name that have passed their check.
 *
 * A new descriptor of the monitor's goes to a number that no call names (kr_fd_dup_unnamed). The number that the
 * kernel itself gives (KVM_CREATE_VCPU, accept(2)) is the lowest free one. So the maker occupies all free numbers that calls name
 * by a plug first. A plug is an O_PATH descriptor of a symbolic link: read, write, ioctl, mmap and most other
 * calls give EBADF for it, as for a number that is not open (open(2), O_PATH).
 *
 * Numbers in structures (poll, select, epoll's data, AIO, SCM_RIGHTS) are not written down. poll and select only tell
 * whether a number is ready; copies for SCM_RIGHTS are made under fdtab_lock; the others use a number once and
 * close none.
 *
 * No state. fdtab_lock and mm->lock are held in all functions but kr_fd_in_call.
 */
#include "fdplace.h"
#include "mm.h"
#include "../lib/above.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

#define WAITS 20

/* Whether o is of another process that was killed: it makes no call any more, and nobody takes its names away. */
static int is_gone(const struct kr_task *o) {
    return o->proc != kr_self()->proc && kr_holder_gone(o->holder);
}

/* Whether o's call can take away what is at the number that it names at place i. */
static int takes(const struct kr_task *o, u32 i) {
    u32 nr = (u32)__atomic_load_n(&o->nr, __ATOMIC_RELAXED);
    return i == KR_NAMED_SHUT || nr == __NR_close ||
           (i == KR_NAMED_ONTO && (nr == __NR_dup2 || nr == __NR_dup3));
}

int kr_fd_named(const struct kr_mm *mm, u32 fd, int only_taken) {
    for (struct kr_task *o = mm ? mm->tasks : NULL; o; o = o->next)
        for (u32 i = 0; i < KR_COUNT(o->named); i++)
            if (__atomic_load_n(&o->named[i], __ATOMIC_SEQ_CST) == fd + 1 && (!only_taken || takes(o, i)) &&
                !is_gone(o))
                return 1;
    return 0;
}

int kr_fd_in_call(struct kr_mm *mm, u32 fd) {
    kr_lock(&mm->lock);
    int r = kr_fd_named(mm, fd, 0);
    kr_unlock(&mm->lock);
    return r;
}

static int is_free(u32 fd) { return kr_sys3(__NR_fcntl, fd, F_GETFD, 0) < 0; }

/* Puts a plug at fd if fd is free. A number beyond the soft limit, too: where the payload has used up all numbers below it, a
 * vCPU's descriptor is made beyond it (new_fd() in vm.c). 0 or -ENOMEM. */
static int plug_at(u32 fd) {
    long n = is_free(fd) ? kr_fd_beyond_limit(__NR_fcntl, KR_FD_PLUG, F_DUPFD_CLOEXEC, fd, fd) : -EBUSY;
    if (n < 0)
        return 0; /* not free, or beyond the hard limit, where the kernel gives no number */
    int r = (u32)n == fd ? kr_fd_enter_plug(fd) : 0;
    if ((u32)n != fd || r < 0)
        kr_sys1(__NR_close, n);
    return r;
}

/* Calls fn for each free number that a call names. How many there are; -ENOMEM from fn. AT_FDCWD is no number that the kernel
 * gives. fn NULL: those of other tasks, because the caller's own call does not end meanwhile. */
static int each_free(const struct kr_mm *mm, int (*fn)(u32 fd)) {
    int n = 0, r = 0;
    for (struct kr_task *o = mm ? mm->tasks : NULL; o; o = o->next)
        for (u32 i = 0; i < KR_COUNT(o->named); i++) {
            u32 name = __atomic_load_n(&o->named[i], __ATOMIC_SEQ_CST);
            if (!name || (s32)(name - 1) < 0 || (!fn && o == kr_self()) || kr_fd_hidden_locked(name - 1) ||
                !is_free(name - 1) || is_gone(o))
                continue;
            n++;
            if (fn && fn(name - 1) < 0)
                r = -ENOMEM;
        }
    return r < 0 ? r : n;
}

/* A call that names a free number ends at once (EBADF), so it gets a little time first. It does not end if it waits for
 * one of our locks (dup, mmap: they check again) or if another thread has closed its number meanwhile. */
int kr_fd_plug_named(const struct kr_mm *mm) {
    const s64 moment[2] = {0, 50000};
    for (u32 i = 0; i < WAITS && each_free(mm, NULL) > 0; i++)
        kr_sys2(__NR_nanosleep, moment, 0);
    return KR_MIN(each_free(mm, plug_at), 0);
}

/* Puts a plug at the lowest free number behind the block. If none is free there: at the base that suits the
 * present limit, or behind it; else at any number from 3 on. The number or -errno. */
static long plug_lowest(void) {
    struct kr_rlimit_pair r;
    long n = kr_fd_beyond_limit(__NR_fcntl, KR_FD_PLUG, F_DUPFD_CLOEXEC, KR_FD_BEHIND, ~0ULL);
    if (n >= 0)
        return n;
    kr_fd_get_limit(&r);
    n = kr_fd_beyond_limit(__NR_fcntl, KR_FD_PLUG, F_DUPFD_CLOEXEC, kr_fd_choose_base(&r), ~0ULL);
    return n < 0 ? kr_fd_beyond_limit(__NR_fcntl, KR_FD_PLUG, F_DUPFD_CLOEXEC, 3, ~0ULL) : n;
}

/* A number of the table that the kernel gives was closed by somebody; the plug stays there, so that the number's
 * holder does not meet another file of the monitor's. */
long kr_fd_dup_unnamed(const struct kr_mm *mm, int fd) {
    for (;;) {
        long n = plug_lowest();
        if (n < 0)
            return n;
        if (kr_fd_in_table((u32)n))
            continue;
        if (kr_fd_named(mm, (u32)n, 0)) {
            if (kr_fd_enter_plug((u32)n) == 0)
                continue;
            kr_sys1(__NR_close, n);
            return -ENOMEM;
        }
        long r = kr_fd_beyond_limit(__NR_dup3, (u32)fd, (u64)n, O_CLOEXEC, (u64)n);
        if (r < 0)
            kr_sys1(__NR_close, n);
        return r;
    }
}

void kr_fd_unplug(u32 fd) {
    struct statx is, own;
    static const char empty[1] = "";
    long r =
        kr_sys5(__NR_statx, fd, empty, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &is);
    if (r == 0)
        r = kr_sys5(__NR_statx, KR_FD_PLUG, empty, AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                    STATX_INO | STATX_MNT_ID, &own);
    if (r == 0 && is.stx_ino == own.stx_ino && is.stx_mnt_id == own.stx_mnt_id)
        kr_sys1(__NR_close, fd);
}
