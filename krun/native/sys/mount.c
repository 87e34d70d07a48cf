/* SPDX-License-Identifier: Apache-2.0
 *
 * Mounts. The kernel decides what the container's capabilities allow. Some of the monitor's descriptors are
 * mounts of their own: detached copies of the host's /dev/kvm and of the monitor's file, and a procfs without
 * masks. A payload with CAP_SYS_ADMIN could attach, copy or reconfigure these, or make them writable, through
 * /proc/self/fd/N. Therefore the object of a path is found with judgement (sys/path.c), and the kernel gets
 * that object. The targets of mount, umount2 and pivot_root need less: the monitor's mounts are in no mount
 * namespace, and the kernel mounts and unmounts nothing there.
 *
 * No state, no locks.
 */
#include "fstype.h"
#include "nested.h"
#include "path.h"
#include "../process/process.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>
#include <linux/mount.h>

#define TYPE_MAX 64
#define UMOUNT_NOFOLLOW_K 8
#define PROPAGATION (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE)
/* A type that the kernel does not have, and for which it loads no module: get_fs_type() finds proc, which has no
 * subtypes. The kernel answers ENODEV, after all other errors. */
#define NO_TYPE "proc.none"

/* Up to a page of mount data, as far as it is readable (copy_mount_options() in the kernel). 0 or -EFAULT. */
static long data_in(u8 *page, u64 ptr) {
    u64 first = KR_PAGE - (ptr & (KR_PAGE - 1));
    if (kr_copy_in(page, ptr, first) < 0)
        return -EFAULT;
    if (first < KR_PAGE && kr_copy_in(page + first, ptr + first, KR_PAGE - first) < 0)
        memset(page + first, 0, KR_PAGE - first);
    return 0;
}

/* A bind or a move: source and target are found here, and the kernel gets the paths of their descriptors. */
static long mount_path(struct kr_task *t, const u64 a[6]) {
    char source[64], target[64];
    long to = kr_path_find(t, (u64)AT_FDCWD, a[1], 0);
    if (to < 0)
        return to;
    long from = kr_path_find(t, (u64)AT_FDCWD, a[0], 0), r = from;
    if (from >= 0) {
        int dir = kr_proc_self_fd(source, sizeof source, (int)from);
        kr_proc_self_fd(target, sizeof target, (int)to);
        u64 b[6] = {(u64)source, (u64)target, 0,
                    a[3],        0,           0}; /* type and data are for other kinds of mounts */
        r = kr_call_from(t, dir, __NR_mount, b);
        kr_fd_shut(from);
    } else if (kr_sys5(__NR_mount, "", "/", 0, a[3], 0) == -EPERM) {
        r = -EPERM; /* Linux looks at the target, then at rights, then at the source */
    }
    kr_fd_shut(to);
    return r;
}

/* Copies in the options of a new mount or of a remount. 0, or -errno of the kernel; *served: whether they may
 * reach the kernel. */
static long options_in(u8 *page, u64 ptr, int *served) {
    long r = data_in(page, ptr);
    page[KR_PAGE - 1] = 0; /* as path_mount() in the kernel */
    *served = r == 0 && kr_fs_options_served((const char *)page);
    return r;
}

/* mount(2) with arguments a of the payload, except the target, the type and the options: private copies. */
static long mount_as(const u64 a[6], const char *target, const char *type, const u8 *data) {
    return kr_call_intr(__NR_mount, a[0], (u64)target, type ? (u64)type : a[2], a[3], (u64)data, 0);
}

/* A new mount, or a change of one. target: a private copy that leads where the payload may go. */
static long mount_on(const u64 a[6], const char *target) {
    char type[TYPE_MAX];
    const char *name = NULL;
    int served = 1;
    if (a[2]) {
        long n = kr_copy_str(type, a[2], sizeof type);
        if (n < 0 && n != -ENAMETOOLONG)
            return n;
        name = n < 0 ? NO_TYPE : type;
    }
    /* Only a new mount has a type. A remount brings options to a file system that is mounted already. */
    if (name && !(a[3] & (MS_REMOUNT | MS_BIND | PROPAGATION | MS_MOVE)) && !kr_fstype_served(name)) {
        kr_log("mount: file system type \"%s\" is not served (docs/limits.md)", name);
        name = NO_TYPE;
    }
    if (!a[4])
        return mount_as(a, target, name, NULL);
    u8 *page = kr_alloc(KR_PAGE);
    if (!page)
        return -ENOMEM;
    long r = options_in(page, a[4], &served);
    if (r == 0 && !served) {
        kr_log("mount: an option names a descriptor or a socket, or the options are binary data: not served");
        r = mount_as(a, target, NO_TYPE, NULL);
        r = r == -ENODEV || r >= 0 ? -EINVAL : r;
    } else if (r == 0) {
        r = mount_as(a, target, name, page);
    }
    kr_free(page, KR_PAGE);
    return r;
}

/* The flags as the kernel reads them: path_mount() takes the magic number of old programs off, whose bits would
 * otherwise mean MS_PRIVATE and MS_SLAVE. */
static u64 plain_flags(u64 flags) {
    return (flags & MS_MGC_MSK) == MS_MGC_VAL ? flags & ~(u64)MS_MGC_MSK : flags;
}

long sys_mount(struct kr_task *t, const u64 args[6]) {
    const u64 a[6] = {args[0], args[1], args[2], plain_flags(args[3]), args[4], 0};
    char *path;
    /* path_mount() in the kernel asks in this order. */
    u64 kind = a[3] & MS_REMOUNT ? 0 : a[3] & MS_BIND ? MS_BIND : a[3] & PROPAGATION ? 0 : a[3] & MS_MOVE;
    if (kind && a[0])
        return mount_path(t, a);
    long n = kr_path_copy(a[1], &path);
    if (n < 0)
        return kr_path_error(__NR_mount, a, 1, n);
    n = kr_open_path(t, AT_FDCWD, path, 0);
    kr_fd_shut(n);
    n = n < 0 ? kr_path_error(__NR_mount, a, 1, n) : mount_on(a, path);
    kr_path_put(path);
    return n;
}

/* A call whose paths are arguments 0 and, where two is set, 1: they lead where the payload may go, and what
 * they lead to is not held (an open directory of a mount keeps it busy). The kernel acts on mounts of the
 * caller's own mount namespace only: neither the monitor's nor another process's are of it. */
static long on_mounts(struct kr_task *t, long nr, const u64 a[6], int two, u32 flags) {
    u64 b[6];
    char *path[2] = {NULL, NULL};
    long n = 0;
    memcpy(b, a, sizeof b);
    for (int i = 0; i <= two && n >= 0; i++) {
        n = kr_path_copy(a[i], &path[i]);
        b[i] = (u64)path[i];
        if (n >= 0)
            n = kr_open_path(t, AT_FDCWD, path[i], flags);
        if (n >= 0)
            kr_fd_shut(n);
        else
            n = kr_path_error(nr, a, i, n);
    }
    if (n >= 0)
        n = kr_forward(nr, b);
    for (int i = 0; i < 2; i++)
        if (path[i])
            kr_path_put(path[i]);
    return n;
}

long sys_umount2(struct kr_task *t, const u64 a[6]) {
    return on_mounts(t, __NR_umount2, a, 0, (u32)a[1] & UMOUNT_NOFOLLOW_K ? O_NOFOLLOW : 0);
}

long sys_pivot_root(struct kr_task *t, const u64 a[6]) {
    return on_mounts(t, __NR_pivot_root, a, 1, O_DIRECTORY);
}

/* ---- the new interface ---- */

/* nr(fd, "", ...) with the flag that says so, on what (dirfd, path) of the payload leads to. flags: the
 * call's, at argument `at`; empty: its flag for an empty path; follows: whether a link in the last place is
 * followed. */
static long on_path(struct kr_task *t, long nr, const u64 a[6], int at, u32 empty, int follows) {
    u64 b[6];
    if (((u32)a[at] & empty) &&
        kr_path_empty(a[1])) /* a descriptor of the payload's own: dispatch has looked */
        return kr_path_itself(nr, a);
    long fd = kr_path_find(t, a[0], a[1], follows ? 0 : AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return kr_path_error(nr, a, 1, fd);
    memcpy(b, a, sizeof b);
    b[0] = (u64)fd;
    b[1] = (u64) "";
    b[at] |= empty;
    long r = kr_forward(nr, b);
    kr_fd_shut(fd);
    return r;
}

long sys_move_mount(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    u64 b[6] = {a[0], a[1], a[2], a[3], a[4]};
    long to = -1;
    if (flags & MOVE_MOUNT_T_EMPTY_PATH && kr_path_empty(a[3])) {
        b[3] = kr_path_nothing(a[3]);
    } else {
        to = kr_path_find(t, a[2], a[3], flags & MOVE_MOUNT_T_SYMLINKS ? 0 : AT_SYMLINK_NOFOLLOW);
        if (to < 0)
            return kr_path_error(__NR_move_mount, a, 3, to);
        b[2] = (u64)to;
        b[3] = (u64) "";
        b[4] |= MOVE_MOUNT_T_EMPTY_PATH;
    }
    long n = on_path(t, __NR_move_mount, b, 4, MOVE_MOUNT_F_EMPTY_PATH, (flags & MOVE_MOUNT_F_SYMLINKS) != 0);
    kr_fd_shut(to);
    return n;
}

long sys_fspick(struct kr_task *t, const u64 a[6]) {
    return on_path(t, __NR_fspick, a, 2, FSPICK_EMPTY_PATH, !((u32)a[2] & FSPICK_SYMLINK_NOFOLLOW));
}

long sys_mount_setattr(struct kr_task *t, const u64 a[6]) {
    return on_path(t, __NR_mount_setattr, a, 2, AT_EMPTY_PATH, !((u32)a[2] & AT_SYMLINK_NOFOLLOW));
}

/* ---- a file system built step by step ---- */

long sys_fsopen(struct kr_task *t, const u64 a[6]) {
    (void)t;
    char name[TYPE_MAX];
    long n = kr_copy_str(name, a[0], sizeof name);
    if (n == -EFAULT)
        return kr_call_intr(__NR_fsopen, KR_BAD_PTR, a[1], 0, 0, 0, 0);
    if (n < 0 || !kr_fstype_served(name)) {
        if (n >= 0)
            kr_log("fsopen: file system type \"%s\" is not served (docs/limits.md)", name);
        memcpy(name, NO_TYPE, sizeof NO_TYPE);
    }
    return kr_call_intr(__NR_fsopen, (u64)name, a[1], 0, 0, 0, 0);
}

#define WORD_MAX 256 /* fsconfig(2): a key or a value with its NUL */

/* A private copy of the word at ptr, in buf[WORD_MAX + 1]. What the kernel gets for it: buf, NULL, or KR_BAD_PTR.
 * A word that is too long is EINVAL for the kernel. */
static u64 word_in(char *buf, u64 ptr) {
    long n = ptr ? kr_copy_str(buf, ptr, WORD_MAX) : 0;
    if (!ptr || n == -EFAULT)
        return ptr ? KR_BAD_PTR : 0;
    if (n < 0) {
        memset(buf, 'x', WORD_MAX);
        buf[WORD_MAX] = 0;
    }
    return (u64)buf;
}

/* FSCONFIG_SET_PATH and FSCONFIG_SET_PATH_EMPTY: the object is found here, and the kernel gets its descriptor. */
static long config_path(struct kr_task *t, const u64 a[6], u64 key) {
    u64 b[6] = {a[0], FSCONFIG_SET_PATH_EMPTY, key, kr_path_nothing(a[3]), (u32)kr_guest_fd(a[4])};
    if ((u32)a[1] == FSCONFIG_SET_PATH_EMPTY && kr_path_empty(a[3]))
        return kr_forward(__NR_fsconfig, b);
    long fd = kr_path_find(t, b[4], a[3], 0);
    if (fd < 0) {
        b[1] = a[1];
        return kr_path_error(__NR_fsconfig, b, 3, fd);
    }
    b[3] = (u64) "";
    b[4] = (u64)fd;
    long n = kr_forward(__NR_fsconfig, b);
    kr_fd_shut(fd);
    return n;
}

long sys_fsconfig(struct kr_task *t, const u64 a[6]) {
    char key[WORD_MAX + 1], value[WORD_MAX + 1];
    u64 b[6] = {a[0], a[1], word_in(key, a[2]), a[3], a[4]};
    const char *word = NULL;
    switch ((u32)a[1]) {
    case FSCONFIG_SET_PATH:
    case FSCONFIG_SET_PATH_EMPTY:
        return config_path(t, a, b[2]);
    case FSCONFIG_SET_FD:
        b[4] = (u32)kr_guest_fd(a[4]);
        break;
    case FSCONFIG_SET_STRING:
        b[3] = word_in(value, a[3]);
        word = b[3] == (u64)value ? value : NULL;
        break;
    }
    if (b[2] == (u64)key && (u32)a[1] <= FSCONFIG_SET_STRING && !kr_fs_option_served(key, word)) {
        kr_log("fsconfig: option \"%s\" names a descriptor or a socket: not served", key);
        memcpy(key, "krun", 5); /* the kernel's answer to an option that it does not know: EINVAL */
    }
    return kr_forward(__NR_fsconfig, b);
}
