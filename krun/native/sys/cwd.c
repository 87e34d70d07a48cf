/* SPDX-License-Identifier: Apache-2.0
 *
 * chdir, chroot: the start of relative and absolute paths. The monitor's procfs has none of the masks and
 * read-only mounts of the container's /proc. No path of the payload may lead there, so the directory is found
 * with judgement (path.h). No state, no locks.
 */
#include "path.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>

/* The directory at the end of the path, opened O_PATH, or -errno. */
static long directory(struct kr_task *t, u64 ptr) {
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    n = kr_open_path(t, AT_FDCWD, path, O_DIRECTORY);
    kr_path_put(path);
    return n;
}

long sys_chdir(struct kr_task *t, const u64 a[6]) {
    long fd = directory(t, a[0]);
    if (fd < 0)
        return fd;
    long n = kr_sys1(__NR_fchdir, fd);
    kr_fd_shut(fd);
    return n;
}

long sys_chroot(struct kr_task *t, const u64 a[6]) {
    long fd = directory(t, a[0]);
    if (fd < 0)
        return fd;
    /* Linux has no fchroot(2): chroot(".") in that directory, then back to the old working directory. */
    long back = kr_sys3(__NR_open, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    long n = back < 0 ? back : kr_sys1(__NR_fchdir, fd);
    if (n == 0) {
        n = kr_sys1(__NR_chroot, ".");
        kr_sys1(__NR_fchdir, back);
    }
    kr_fd_shut(back);
    kr_fd_shut(fd);
    return n;
}
