/* SPDX-License-Identifier: Apache-2.0
 *
 * open_tree: an O_PATH open, or a copy of a mount tree. No state, no locks.
 */
#include "path.h"
#include "../machine/fdtab.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>

/* Opens the path O_PATH, which every user may do, or copies a mount tree. The object of the path is found
 * with judgement, and the call gets its descriptor. */
static long tree_of(struct kr_task *t, long nr, const u64 a[6]) {
    u32 flags = (u32)a[2];
    char *path;
    long n = kr_path_copy(a[1], &path);
    if (n < 0)
        return n;
    if (!*path) { /* a descriptor of the payload's own (dispatch has checked it), or its working directory */
        kr_path_put(path);
        return kr_call_intr(nr, a[0], (u64) "", flags, a[3], a[4], 0);
    }
    long fd = kr_open_path(t, (int)a[0], path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
    kr_path_put(path);
    if (fd < 0)
        return kr_path_error(nr, a, 1, fd);
    n = kr_call_intr(nr, (u64)fd, (u64) "", flags | AT_EMPTY_PATH, a[3], a[4], 0);
    kr_fd_shut(fd);
    if (n > fd) { /* the lowest free number now: fd stood below n */
        long low = kr_fd_dup((u64)n, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
        if (low >= 0) {
            kr_fd_shut(n);
            n = low;
        }
    }
    return n;
}

long sys_open_tree(struct kr_task *t, const u64 a[6]) { return tree_of(t, __NR_open_tree, a); }
long sys_open_tree_attr(struct kr_task *t, const u64 a[6]) { return tree_of(t, 467, a); }
