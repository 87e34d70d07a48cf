/* SPDX-License-Identifier: Apache-2.0
 * inotify_add_watch, fanotify_mark: the object of the path is found with judgement (path.h). The kernel gets
 * a magic link to the object and follows it, so the flag not to follow is evaluated here. No state, no locks.
 */
#include "path.h"
#include "../view/procfs.h"
#include <linux/fanotify.h>
#include <linux/fcntl.h>
#include <linux/inotify.h>

long sys_inotify_add_watch(struct kr_task *t, const u64 a[6]) {
    u64 b[6] = {a[0], 0, a[2] & ~(u64)IN_DONT_FOLLOW};
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[1], a[2] & IN_DONT_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0);
    return fd < 0 ? kr_path_error(__NR_inotify_add_watch, a, 1, fd)
                  : kr_path_from(t, fd, __NR_inotify_add_watch, b, 1);
}

long sys_fanotify_mark(struct kr_task *t, const u64 a[6]) {
    char rel[64];
    u32 flags = (u32)a[1];
    u64 b[6] = {a[0], flags & ~(u32)FAN_MARK_DONT_FOLLOW, a[2], a[3], 0, 0};
    if (!a[4] || flags & FAN_MARK_FLUSH) /* the descriptor itself; the kernel reads no path */
        return kr_forward(__NR_fanotify_mark, b);
    long fd = kr_path_find(t, a[3], a[4], flags & FAN_MARK_DONT_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0);
    if (fd < 0)
        return kr_path_error(__NR_fanotify_mark, a, 4, fd);
    b[3] = (u64)(s64)kr_proc_self_fd(rel, sizeof rel, (int)fd);
    b[4] = (u64)rel;
    long n = kr_forward(__NR_fanotify_mark, b);
    kr_fd_shut(fd);
    return n;
}
