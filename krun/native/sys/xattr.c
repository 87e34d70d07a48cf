/* SPDX-License-Identifier: Apache-2.0
 * Extended attributes (xattr(7)). The object is found with judgement (path.h). Linux 6.13 has calls that take
 * a directory. Older kernels have only calls with a path: a thread whose working directory is the monitor's
 * procfs makes these.
 *
 * No state, no locks.
 */
#include "path.h"
#include "../lib/kr_linux.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include <linux/limits.h>

#define SIZE_MOST ((u32)XATTR_SIZE_MAX) /* and XATTR_LIST_MAX, which is the same */
#define CWD ((u64)(s64)AT_FDCWD)

struct xattr_args_k {
    u64 value;
    u32 size, flags;
};

/* b[0](handle, path of fd, 0, b[1], b[2], b[3]) */
static long new_call(int fd, const u64 *b) {
    char rel[64];
    int dir = kr_proc_self_fd(rel, sizeof rel, fd);
    return kr_sys6((long)b[0], (u64)(s64)dir, (u64)rel, 0, b[1], b[2], b[3]);
}

/* Makes the new call; where the kernel does not know it, the old one b[4](path of fd, b[5], b[6], b[7], b[8]).
 * The old one needs the procfs as working directory: only on a thread of kr_path_use_alone. */
static long either_call(int fd, const u64 *b) {
    char rel[64];
    long n = new_call(fd, b);
    if (n != -ENOSYS)
        return n;
    n = kr_sys1(__NR_fchdir, kr_proc_self_fd(rel, sizeof rel, fd));
    return n < 0 ? n : kr_sys5((long)b[4], (u64)rel, b[5], b[6], b[7], b[8]);
}

/* As kr_path_find. -EOPNOTSUPP for /proc/PID/fd/N of another process, which the kernel refuses: links of a
 * procfs have no attributes, and ls(1) asks for them. */
static long found(struct kr_task *t, u64 ptr, u32 flags) {
    struct kr_proc_name pn;
    char *path;
    u32 how;
    long fd = kr_path_find(t, CWD, ptr, flags);
    if (fd != -EACCES || !flags || kr_path_copy(ptr, &path) < 0)
        return fd;
    long other = kr_other_fd(t, AT_FDCWD, path, &pn, &how);
    kr_path_put(path);
    if (other < 0)
        return other == -KR_ERESTART ? other : fd;
    kr_fd_shut(other);
    return -EOPNOTSUPP;
}

/* Makes the new call with the arguments b on the object of the path a[0]; without it the call old with the
 * arguments a. */
static long make(struct kr_task *t, const u64 a[6], u32 flags, const u64 b[4], long old) {
    long fd = found(t, a[0], flags);
    if (fd == -EMFILE) /* no number is free */
        return kr_path_use_alone(t, CWD, a[0], flags, either_call,
                                 (u64[]){b[0], b[1], b[2], b[3], (u64)old, a[1], a[2], a[3], a[4]});
    if (fd < 0)
        return fd;
    long n = new_call((int)fd, b);
    if (n == -ENOSYS)
        return kr_path_from(t, fd, old, a, 0);
    kr_fd_shut(fd);
    return n;
}

static long set(struct kr_task *t, const u64 a[6], u32 flags) {
    struct xattr_args_k x = {a[2], (u32)KR_MIN(a[3], (u64)SIZE_MOST + 1), (u32)a[4]}; /* more is E2BIG */
    return make(t, a, flags, (u64[]){__NR_setxattrat, a[1], (u64)&x, sizeof x}, __NR_setxattr);
}

static long get(struct kr_task *t, const u64 a[6], u32 flags) {
    struct xattr_args_k x = {a[2], (u32)KR_MIN(a[3], (u64)SIZE_MOST), 0};
    return make(t, a, flags, (u64[]){__NR_getxattrat, a[1], (u64)&x, sizeof x}, __NR_getxattr);
}

static long list(struct kr_task *t, const u64 a[6], u32 flags) {
    return make(t, a, flags, (u64[]){__NR_listxattrat, a[1], a[2], 0}, __NR_listxattr);
}

static long drop(struct kr_task *t, const u64 a[6], u32 flags) {
    return make(t, a, flags, (u64[]){__NR_removexattrat, a[1], 0, 0}, __NR_removexattr);
}

long sys_setxattr(struct kr_task *t, const u64 a[6]) { return set(t, a, 0); }
long sys_lsetxattr(struct kr_task *t, const u64 a[6]) { return set(t, a, AT_SYMLINK_NOFOLLOW); }
long sys_getxattr(struct kr_task *t, const u64 a[6]) { return get(t, a, 0); }
long sys_lgetxattr(struct kr_task *t, const u64 a[6]) { return get(t, a, AT_SYMLINK_NOFOLLOW); }
long sys_listxattr(struct kr_task *t, const u64 a[6]) { return list(t, a, 0); }
long sys_llistxattr(struct kr_task *t, const u64 a[6]) { return list(t, a, AT_SYMLINK_NOFOLLOW); }
long sys_removexattr(struct kr_task *t, const u64 a[6]) { return drop(t, a, 0); }
long sys_lremovexattr(struct kr_task *t, const u64 a[6]) { return drop(t, a, AT_SYMLINK_NOFOLLOW); }

long sys_listxattrat(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, __NR_listxattrat, a, 2); }
long sys_removexattrat(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, __NR_removexattrat, a, 2); }
