/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that change the inode that a path leads to: mode, owner, times, length. Forwarded, they would follow
 * /proc/self/fd/N to a descriptor of the monitor's (the log is a file of the host's, the procfs handle has no
 * masks). So the path is walked with judgement (vmm/procfs.h), and the change is made to what was found.
 *
 * No state, no locks.
 */
#include "sys.h"
#include "../vmm/procfs.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

#define PATH_ROOM 4096u
#define NR_FCHMODAT2 452

/* What the path names, O_PATH, or -errno. flags: AT_SYMLINK_NOFOLLOW counts. */
static long find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags) {
    char *path = kr_alloc(PATH_ROOM);
    if (!path)
        return -ENOMEM;
    long n = kr_copy_str(path, ptr, PATH_ROOM);
    if (n >= 0)
        n = *path ? kr_open_path(t, (int)dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0) : -ENOENT;
    kr_free(path, PATH_ROOM);
    return n;
}

/* An empty path with AT_EMPTY_PATH: a descriptor of the payload's own, which dispatch has checked. */
static int is_own_fd(u64 ptr, u32 flags) {
    u8 first;
    return (flags & AT_EMPTY_PATH) && (!ptr || (kr_copy_in(&first, ptr, 1) == 0 && !first));
}

/* nr(handle, path of fd, a, b) for calls that take a directory and follow links; closes fd. */
static long through(long fd, long nr, u64 a, u64 b) {
    char rel[64];
    if (fd < 0)
        return fd;
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    long n = kr_call_intr(nr, (u64)(s64)dir, (u64)rel, a, b, 0, 0);
    kr_sys1(__NR_close, fd);
    return n;
}

/* ---- mode ---- */

long sys_chmod(struct kr_task *t, const u64 a[6]) {
    return through(find(t, (u64)AT_FDCWD, a[0], 0), __NR_fchmodat, a[1], 0);
}

long sys_fchmodat(struct kr_task *t, const u64 a[6]) {
    return through(find(t, a[0], a[1], 0), __NR_fchmodat, a[2], 0);
}

long sys_fchmodat2(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(NR_FCHMODAT2, a);
    return through(find(t, a[0], a[1], flags), __NR_fchmodat, a[2], 0);
}

/* ---- owner ---- */

static long own(long fd, u64 uid, u64 gid) {
    if (fd < 0)
        return fd;
    long n = kr_call_intr(__NR_fchownat, (u64)fd, (u64) "", uid, gid, AT_EMPTY_PATH, 0);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_chown(struct kr_task *t, const u64 a[6]) { return own(find(t, (u64)AT_FDCWD, a[0], 0), a[1], a[2]); }

long sys_lchown(struct kr_task *t, const u64 a[6]) {
    return own(find(t, (u64)AT_FDCWD, a[0], AT_SYMLINK_NOFOLLOW), a[1], a[2]);
}

long sys_fchownat(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(__NR_fchownat, a);
    return own(find(t, a[0], a[1], flags), a[2], a[3]);
}

/* ---- times ---- */

long sys_utime(struct kr_task *t, const u64 a[6]) {
    s64 sec[2], tv[4];
    if (a[1] && kr_copy_in(sec, a[1], sizeof sec) < 0)
        return -EFAULT;
    if (a[1]) {
        tv[0] = sec[0];
        tv[2] = sec[1];
        tv[1] = tv[3] = 0;
    }
    return through(find(t, (u64)AT_FDCWD, a[0], 0), __NR_futimesat, a[1] ? (u64)tv : 0, 0);
}

long sys_utimes(struct kr_task *t, const u64 a[6]) {
    return through(find(t, (u64)AT_FDCWD, a[0], 0), __NR_futimesat, a[1], 0);
}

long sys_futimesat(struct kr_task *t, const u64 a[6]) {
    if (!a[1]) /* of the descriptor */
        return kr_forward(__NR_futimesat, a);
    return through(find(t, a[0], a[1], 0), __NR_futimesat, a[2], 0);
}

long sys_utimensat(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (!a[1] || flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(__NR_utimensat, a);
    return through(find(t, a[0], a[1], flags), __NR_utimensat, a[2], 0);
}

/* ---- length ---- */

long sys_truncate(struct kr_task *t, const u64 a[6]) {
    struct statx st;
    char rel[64];
    if ((s64)a[1] < 0)
        return -EINVAL;
    long fd = find(t, (u64)AT_FDCWD, a[0], 0);
    if (fd < 0)
        return fd;
    long n = kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
    u32 type = st.stx_mode & 0170000;
    if (n == 0)
        n = type == 0040000 ? -EISDIR : type != 0100000 ? -EINVAL : 0;
    if (n == 0) {
        int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
        n = kr_call_intr(__NR_openat, (u64)(s64)dir, (u64)rel, O_WRONLY | O_CLOEXEC, 0, 0, 0);
    }
    kr_sys1(__NR_close, fd);
    if (n < 0)
        return n;
    fd = n;
    n = kr_call_intr(__NR_ftruncate, (u64)fd, a[1], 0, 0, 0, 0);
    kr_sys1(__NR_close, fd);
    return n;
}
