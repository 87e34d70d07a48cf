/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that change the inode that a path leads to (mode, owner, times, length, attributes), give it another
 * name, or hand it to the kernel for use. Forwarded, they would follow /proc/self/fd/N to a descriptor of the
 * monitor's (the log is a file of the host's, the procfs handle has no masks). So the path is walked with
 * judgement (vmm/procfs.h), and the change is made to what was found: between look and use no link can be
 * turned.
 *
 * Calls that act on a name and not on what it leads to (mkdir, rename, unlink, ...) need no such care, for
 * the only directory among the monitor's descriptors is a procfs that is mounted read-only; those that only
 * tell something neither. kr_path_seen makes them answer as if our numbers were not open.
 *
 * No state, no locks.
 */
#include "path.h"
#include "table.h"
#include "../vmm/process.h"
#include "../vmm/procfs.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

#define PATH_ROOM 4096u
#define NR_FCHMODAT2 452

long kr_path_find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags) {
    char *path = kr_alloc(PATH_ROOM);
    if (!path)
        return -ENOMEM;
    long n = kr_copy_str(path, ptr, PATH_ROOM);
    if (n >= 0)
        n = *path ? kr_open_path(t, (int)dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0) : -ENOENT;
    kr_free(path, PATH_ROOM);
    return n;
}

/* Calls of which the kernel reads the path before anything else, so that nothing is to be asked. For none of
 * them the monitor makes the host's call of that number, and the jail does not allow it (vmm/jail.c). */
static int path_comes_first(long nr) {
    switch (nr) {
    case __NR_chdir:
    case __NR_chmod:
    case __NR_chown:
    case __NR_creat:
    case __NR_execve:
    case __NR_execveat:
    case __NR_lchown:
        return 1;
    }
    return 0;
}

long kr_path_error(long nr, const u64 a[6], int i, long err) {
    u64 b[6];
    if (path_comes_first(nr))
        return err;
    memcpy(b, a, sizeof b);
    b[i] = KR_BAD_PTR; /* so the kernel gets no further than to the path */
    long r = kr_sys6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    return r == -EFAULT || r >= 0 ? err : r;
}

int kr_path_empty(u64 ptr) {
    u8 first;
    return !ptr || (kr_copy_in(&first, ptr, 1) == 0 && !first);
}

static int is_own_fd(u64 ptr, u32 flags) { return (flags & AT_EMPTY_PATH) && kr_path_empty(ptr); }

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
    return through(kr_path_find(t, (u64)AT_FDCWD, a[0], 0), __NR_fchmodat, a[1], 0);
}

long sys_fchmodat(struct kr_task *t, const u64 a[6]) {
    return through(kr_path_find(t, a[0], a[1], 0), __NR_fchmodat, a[2], 0);
}

long sys_fchmodat2(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(NR_FCHMODAT2, a);
    return through(kr_path_find(t, a[0], a[1], flags), __NR_fchmodat, a[2], 0);
}

/* ---- owner ---- */

static long own(long fd, u64 uid, u64 gid) {
    if (fd < 0)
        return fd;
    long n = kr_call_intr(__NR_fchownat, (u64)fd, (u64) "", uid, gid, AT_EMPTY_PATH, 0);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_chown(struct kr_task *t, const u64 a[6]) {
    return own(kr_path_find(t, (u64)AT_FDCWD, a[0], 0), a[1], a[2]);
}

long sys_lchown(struct kr_task *t, const u64 a[6]) {
    return own(kr_path_find(t, (u64)AT_FDCWD, a[0], AT_SYMLINK_NOFOLLOW), a[1], a[2]);
}

long sys_fchownat(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(__NR_fchownat, a);
    return own(kr_path_find(t, a[0], a[1], flags), a[2], a[3]);
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
    return through(kr_path_find(t, (u64)AT_FDCWD, a[0], 0), __NR_futimesat, a[1] ? (u64)tv : 0, 0);
}

long sys_utimes(struct kr_task *t, const u64 a[6]) {
    return through(kr_path_find(t, (u64)AT_FDCWD, a[0], 0), __NR_futimesat, a[1], 0);
}

long sys_futimesat(struct kr_task *t, const u64 a[6]) {
    if (!a[1]) /* of the descriptor */
        return kr_forward(__NR_futimesat, a);
    return through(kr_path_find(t, a[0], a[1], 0), __NR_futimesat, a[2], 0);
}

long sys_utimensat(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (!a[1] || flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(__NR_utimensat, a);
    return through(kr_path_find(t, a[0], a[1], flags), __NR_utimensat, a[2], 0);
}

/* ---- length ---- */

long sys_truncate(struct kr_task *t, const u64 a[6]) {
    struct statx st;
    char rel[64];
    if ((s64)a[1] < 0)
        return -EINVAL;
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[0], 0);
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

/* ---- extended attributes and those of chattr(1) ---- */

#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_FILE_SETATTR 469

struct xattr_args_k {
    u64 value;
    u32 size, flags;
};

/* The old call on a descriptor's path, from a thread that stands where the path begins. Closes fd. */
static long from_handle(struct kr_task *t, long fd, long nr, u64 b, u64 c, u64 d, u64 e) {
    char rel[64];
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    u64 a[6] = {(u64)rel, b, c, d, e, 0};
    long n = kr_call_from(t, dir, nr, a);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_setxattr(struct kr_task *t, const u64 a[6]) {
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[0], 0);
    if (fd < 0)
        return fd;
    char rel[64];
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    struct xattr_args_k x = {a[2], (u32)a[3], (u32)a[4]};
    long n =
        a[3] >> 32 ? -E2BIG : kr_sys6(NR_SETXATTRAT, (u64)(s64)dir, (u64)rel, 0, a[1], (u64)&x, sizeof x);
    if (n == -ENOSYS) /* before Linux 6.13 */
        return from_handle(t, fd, __NR_setxattr, a[1], a[2], a[3], a[4]);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_removexattr(struct kr_task *t, const u64 a[6]) {
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[0], 0);
    if (fd < 0)
        return fd;
    char rel[64];
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    long n = kr_sys4(NR_REMOVEXATTRAT, (s64)dir, rel, 0, a[1]);
    if (n == -ENOSYS)
        return from_handle(t, fd, __NR_removexattr, a[1], 0, 0, 0);
    kr_sys1(__NR_close, fd);
    return n;
}

long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg) {
    u32 flags = (u32)a[flags_arg];
    char rel[64];
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) || is_own_fd(a[1], flags))
        return kr_forward(nr, a);
    long fd = kr_path_find(t, a[0], a[1], flags);
    if (fd < 0)
        return fd;
    u64 b[6];
    memcpy(b, a, sizeof b);
    b[0] = (u64)(s64)kr_proc_self_fd(rel, sizeof rel, (int)fd);
    b[1] = (u64)rel;
    b[flags_arg] = 0;
    long n = kr_forward(nr, b);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_removexattrat(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, NR_REMOVEXATTRAT, a, 2); }
long sys_file_setattr(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, NR_FILE_SETATTR, a, 4); }

/* ---- another name, a handle ---- */

long sys_linkat(struct kr_task *t, const u64 a[6]) {
    char rel[64];
    if (!((u32)a[4] & AT_SYMLINK_FOLLOW) || is_own_fd(a[1], (u32)a[4]))
        return kr_forward(__NR_linkat, a); /* a link in the last place is itself the thing */
    long fd = kr_path_find(t, a[0], a[1], 0);
    if (fd < 0)
        return fd;
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    long n = kr_call_intr(__NR_linkat, (u64)(s64)dir, (u64)rel, a[2], a[3], a[4], 0);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_name_to_handle_at(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    if (is_own_fd(a[1], flags))
        return kr_forward(__NR_name_to_handle_at, a);
    long fd = kr_path_find(t, a[0], a[1], flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return fd;
    long n = kr_call_intr(__NR_name_to_handle_at, (u64)fd, (u64) "", a[2], a[3],
                          (flags & ~(u32)AT_SYMLINK_FOLLOW) | AT_EMPTY_PATH, 0);
    kr_sys1(__NR_close, fd);
    return n;
}

/* ---- for the kernel to use ---- */

long sys_acct(struct kr_task *t, const u64 a[6]) {
    if (!a[0]) /* off */
        return kr_forward(__NR_acct, a);
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[0], 0);
    return fd < 0 ? kr_path_error(__NR_acct, a, 0, fd) : from_handle(t, fd, __NR_acct, 0, 0, 0, 0);
}

long sys_swapon(struct kr_task *t, const u64 a[6]) {
    long fd = kr_path_find(t, (u64)AT_FDCWD, a[0], 0);
    return fd < 0 ? kr_path_error(__NR_swapon, a, 0, fd) : from_handle(t, fd, __NR_swapon, a[1], 0, 0, 0);
}

/* ---- what a path seems to lead through ---- */

#define FEW 512u

/* The end of the next "fd/NUMBER" in p, or NULL. */
static char *fd_number(char *p) {
    while ((p = strchr(p, 'f'))) {
        if (strncmp(p, "fd/", 3) == 0 && p[3] >= '0' && p[3] <= '9') {
            p += 3;
            while (*p >= '0' && *p <= '9')
                p++;
            if (!*p || *p == '/')
                return p;
        }
        p++;
    }
    return NULL;
}

long kr_path_seen(struct kr_task *t, u64 dirfd, u64 ptr) {
    char few[FEW], *path = few;
    long n = kr_copy_str(few, ptr, FEW), r = 0;
    if (n == -ENAMETOOLONG) {
        path = kr_alloc(PATH_ROOM);
        n = path ? kr_copy_str(path, ptr, PATH_ROOM) : -ENOMEM;
    }
    /* What cannot be read is the kernel's to refuse. */
    for (char *end = path; n >= 0 && r == 0 && (end = fd_number(end));) {
        char was = *end;
        *end = 0;
        long fd = kr_open_path(t, (int)dirfd, path, 0);
        *end = was;
        if (fd >= 0)
            kr_sys1(__NR_close, fd);
        else if (fd == -ENOENT || fd == -EACCES)
            r = fd;
    }
    if (path && path != few)
        kr_free(path, PATH_ROOM);
    return r;
}
