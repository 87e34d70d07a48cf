/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that open, close, duplicate, list and look at files by name: where the payload could meet the
 * monitor's descriptors or its procfs entries. The judging is in vmm/procfs.c, the numbers in vmm/fdtab.c.
 *
 * State: identity of the monitor's executable, found once. Locks: none. Called from dispatch.
 */
#include "path.h"
#include "sys.h"
#include "../vmm/ask.h"
#include "../vmm/fdtab.h"
#include "../vmm/procfs.h"
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/resource.h>
#include <linux/stat.h>

#define NR_FACCESSAT2 439
#define PATH_ROOM 4096u
#define FASYNC_FLAG 020000u

#define OPEN_FLAGS                                                                                           \
    (O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_DSYNC | FASYNC_FLAG |     \
     O_DIRECT | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | __O_SYNC | O_PATH |         \
     __O_TMPFILE)
#define PATH_FLAGS (O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC)
#define RESOLVE_FLAGS                                                                                        \
    (RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT |     \
     RESOLVE_CACHED)

/* A private copy of a path. Free it with put_path. */
static long get_path(u64 ptr, char **path) {
    char *p = kr_alloc(PATH_ROOM);
    if (!p)
        return -ENOMEM;
    long n = kr_copy_str(p, ptr, PATH_ROOM);
    if (n < 0) {
        kr_free(p, PATH_ROOM);
        return n;
    }
    *path = p;
    return n;
}

static void put_path(char *path) { kr_free(path, PATH_ROOM); }

static long open_with(struct kr_task *t, int dirfd, u64 ptr, const struct open_how *how) {
    char *path;
    long n = get_path(ptr, &path);
    if (n < 0)
        return n;
    n = kr_open(t, dirfd, path, how);
    put_path(path);
    return n;
}

/* open(2) ignores what openat2(2) refuses: unknown flags, a mode without creation, flags beside O_PATH. */
static long open_old(struct kr_task *t, int dirfd, u64 ptr, u32 flags, u32 mode) {
    struct open_how how = {.flags = (flags & OPEN_FLAGS) | O_LARGEFILE};
    if (flags & O_PATH)
        how.flags = flags & PATH_FLAGS;
    else if (flags & (O_CREAT | __O_TMPFILE))
        how.mode = mode & 07777;
    return open_with(t, dirfd, ptr, &how);
}

long sys_open(struct kr_task *t, const u64 a[6]) { return open_old(t, AT_FDCWD, a[0], (u32)a[1], (u32)a[2]); }

long sys_creat(struct kr_task *t, const u64 a[6]) {
    return open_old(t, AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, (u32)a[1]);
}

long sys_openat(struct kr_task *t, const u64 a[6]) {
    return open_old(t, (int)a[0], a[1], (u32)a[2], (u32)a[3]);
}

long sys_openat2(struct kr_task *t, const u64 a[6]) {
    struct open_how how;
    u64 size = a[3];
    if (size < sizeof how)
        return -EINVAL;
    if (size > KR_PAGE)
        return -E2BIG;
    if (kr_copy_in(&how, a[2], sizeof how) < 0)
        return -EFAULT;
    for (u64 i = sizeof how; i < size; i++) { /* a later kernel's fields must be zero */
        u8 b;
        if (kr_copy_in(&b, a[2] + i, 1) < 0)
            return -EFAULT;
        if (b)
            return -E2BIG;
    }
    int creates = (how.flags & (O_CREAT | __O_TMPFILE)) != 0;
    if (how.flags & ~(u64)OPEN_FLAGS || how.resolve & ~(u64)RESOLVE_FLAGS ||
        (creates ? how.mode & ~07777ULL : how.mode) || (how.flags & O_PATH && how.flags & ~(u64)PATH_FLAGS) ||
        ((how.resolve & RESOLVE_BENEATH) && (how.resolve & RESOLVE_IN_ROOT)))
        return -EINVAL;
    if (!(how.flags & O_PATH))
        how.flags |= O_LARGEFILE;
    return open_with(t, (int)a[0], a[1], &how);
}

/* ---- Links ---- */

static long read_link(struct kr_task *t, int dirfd, u64 ptr, u64 buf, u64 len) {
    s32 size = (s32)len;
    if (size <= 0)
        return -EINVAL;
    char *path;
    long n = get_path(ptr, &path);
    if (n < 0)
        return n;
    char *out = kr_alloc(PATH_ROOM);
    n = out ? kr_readlink(t, dirfd, path, out, KR_MIN((size_t)size, PATH_ROOM)) : -ENOMEM;
    if (n > 0 && kr_copy_out(buf, out, (size_t)n) < 0)
        n = -EFAULT;
    kr_free(out, PATH_ROOM);
    put_path(path);
    return n;
}

long sys_readlink(struct kr_task *t, const u64 a[6]) { return read_link(t, AT_FDCWD, a[0], a[1], a[2]); }
long sys_readlinkat(struct kr_task *t, const u64 a[6]) { return read_link(t, (int)a[0], a[1], a[2], a[3]); }

/* ---- Directories ---- */

#define DIRENT_ROOM 32768u

struct dirent_head { /* common to linux_dirent and linux_dirent64 */
    u64 ino, off;
    u16 reclen;
} __attribute__((packed));

/* Drops entries from buf[n]; what is left. names start at name_at of an entry. */
struct open_fds { /* of another process */
    u32 *fds, n;
    size_t size;
};

static int is_open(const struct open_fds *o, u64 fd) {
    u32 lo = 0, hi = o->n;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (o->fds[mid] < fd)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < o->n && o->fds[lo] == fd;
}

static long filter_entries(struct kr_task *t, u8 *buf, long n, size_t name_at, int kind, u32 pid,
                           const struct open_fds *other) {
    long kept = 0;
    for (long at = 0; at < n;) {
        struct dirent_head h;
        memcpy(&h, buf + at, sizeof h);
        const char *name = (const char *)buf + at + name_at, *end;
        u64 number = kr_strtou(name, &end);
        int numeric = end != name && !*end;
        int drop = kind == KR_DIR_EMPTY       ? name[0] != '.'
                   : kind == KR_DIR_FDS       ? numeric && kr_fd_hidden(number)
                   : kind == KR_DIR_FDS_OTHER ? numeric && !is_open(other, number)
                                              : numeric && kr_is_kvm_thread(t, pid, number);
        if (!drop) {
            memmove(buf + kept, buf + at, h.reclen);
            kept += h.reclen;
        }
        at += h.reclen;
    }
    return kept;
}

/* Where a listing of a directory that the kernel does not let us list stands: fd or fdinfo of another
 * process, opened O_PATH (vmm/procfs.c). A few at a time; the oldest is forgotten and begins anew. */
static struct {
    int fd;
    u32 pid, next; /* least number still to be shown */
    u64 used;
} cursors[8];
static struct kr_lock cursor_lock;

static long emulate(long nr, int fd, u32 pid, const struct open_fds *o, u8 *buf, u32 room) {
    static u64 clock;
    u32 c = 0, i = 0, n = 0;
    if (nr != __NR_getdents64)
        return -EACCES;
    kr_lock(&cursor_lock);
    for (u32 k = 0; k < KR_COUNT(cursors); k++) {
        if (cursors[k].used && cursors[k].fd == fd && cursors[k].pid == pid) {
            c = k;
            break;
        }
        if (cursors[k].used < cursors[c].used)
            c = k;
    }
    if (!cursors[c].used || cursors[c].fd != fd || cursors[c].pid != pid)
        cursors[c].fd = fd, cursors[c].pid = pid, cursors[c].next = 0;
    cursors[c].used = ++clock;
    while (i < o->n && o->fds[i] < cursors[c].next)
        i++;
    for (; i < o->n && n + 32 <= room; i++, n += 32) {
        struct dirent_head h = {.ino = (u64)pid << 20 | o->fds[i], .off = o->fds[i] + 3, .reclen = 32};
        memset(buf + n, 0, 32);
        memcpy(buf + n, &h, sizeof h);
        buf[n + 18] = 0; /* DT_UNKNOWN */
        kr_snprintf((char *)buf + n + 19, 13, "%u", o->fds[i]);
        cursors[c].next = o->fds[i] + 1;
    }
    if (!n)
        cursors[c].used = 0; /* the end: the next listing is another */
    kr_unlock(&cursor_lock);
    return n;
}

static long list(struct kr_task *t, long nr, const u64 a[6], size_t name_at) {
    u32 pid = 0;
    struct open_fds other = {NULL, 0, 0};
    int kind = kr_dir_kind(t, (int)a[0], &pid);
    if (kind == KR_DIR_PLAIN)
        return kr_forward(nr, a);
    if (kind == KR_DIR_FDS_OTHER) {
        long r = kr_ask_fds(t, pid, &other.fds, &other.n, &other.size);
        if (r < 0)
            return r == -ESRCH ? -ENOENT : r;
    }
    u32 room = KR_MIN((u32)a[2], DIRENT_ROOM);
    u8 *buf = kr_alloc(DIRENT_ROOM);
    long n = -ENOMEM;
    while (buf) { /* until something is left to show, or the end */
        n = kr_call_intr(nr, a[0], (u64)buf, room, 0, 0, 0);
        if (n == -EBADF && kind == KR_DIR_FDS_OTHER) {
            n = emulate(nr, (int)a[0], pid, &other, buf, room);
            break;
        }
        if (n <= 0)
            break;
        n = filter_entries(t, buf, n, name_at, kind, pid, &other);
        if (n)
            break;
    }
    if (n > 0 && kr_copy_out(a[1], buf, (size_t)n) < 0)
        n = -EFAULT;
    kr_free(buf, buf ? DIRENT_ROOM : 0);
    kr_free(other.fds, other.fds ? other.size : 0);
    return n;
}

long sys_getdents(struct kr_task *t, const u64 a[6]) { return list(t, __NR_getdents, a, 18); }
long sys_getdents64(struct kr_task *t, const u64 a[6]) { return list(t, __NR_getdents64, a, 19); }

/* ---- What a name stands for ---- */

/* True if a file of this kind may be the monitor's, reached through a magic link: its executable, KVM's
 * descriptors. */
static int is_ours(u32 mode, u32 dev_major, u32 dev_minor, u64 ino, u32 rdev_major, u32 rdev_minor) {
    static struct {
        u64 ino;
        u32 major, minor, known;
    } exe;
    if ((mode & 0170000) == 0)
        return 1;
    if ((mode & 0170000) == 0020000)
        return rdev_major == 10 && rdev_minor == 232;
    if (!__atomic_load_n(&exe.known, __ATOMIC_ACQUIRE)) {
        struct statx sx;
        if (kr_boot.fd_exe < 0 || kr_sys5(__NR_statx, kr_boot.fd_exe, "", AT_EMPTY_PATH, STATX_INO, &sx) < 0)
            return 0;
        exe.ino = sx.stx_ino; /* the same values whoever writes them */
        exe.major = sx.stx_dev_major;
        exe.minor = sx.stx_dev_minor;
        __atomic_store_n(&exe.known, 1, __ATOMIC_RELEASE);
    }
    return ino == exe.ino && dev_major == exe.major && dev_minor == exe.minor;
}

static u32 dev_major(u64 dev) { return (u32)((dev >> 8) & 0xfff) | (u32)((dev >> 32) & ~0xfffULL); }
static u32 dev_minor(u64 dev) { return (u32)(dev & 0xff) | (u32)((dev >> 12) & ~0xffULL); }

/* The head of the kernel's struct stat. */
struct stat_head {
    u64 dev, ino, nlink;
    u32 mode, uid, gid, pad;
    u64 rdev;
};

/* Looks again, at a descriptor that kr_open_path judged. */
static long stat_again(struct kr_task *t, int dirfd, u64 ptr, u32 flags, long nr, const u64 a[6]) {
    char *path;
    long n = get_path(ptr, &path);
    if (n < 0)
        return n;
    long fd = *path ? kr_open_path(t, dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0) : -ENOENT;
    put_path(path);
    if (fd < 0)
        return fd;
    if (nr == __NR_statx)
        n = kr_sys5(nr, fd, "", (flags | AT_EMPTY_PATH) & ~(u32)AT_SYMLINK_NOFOLLOW, a[3], a[4]);
    else
        n = kr_sys2(__NR_fstat, fd, a[nr == __NR_newfstatat ? 2 : 1]);
    kr_sys1(__NR_close, fd);
    return n;
}

/* lstat of a descriptor of another process where the kernel lets nobody look: what procfs makes of it. mask:
 * of statx, 0: struct stat. -ESRCH if it is none. */
static long lstat_other(struct kr_task *t, int dirfd, u64 ptr, u64 buf, u32 mask) {
    struct kr_proc_name pn;
    union {
        struct {
            struct stat_head h;
            u64 size, rest[11];
        } st;
        struct statx sx;
    } u;
    char *path, rel[64], like[32];
    u32 how;
    long n = get_path(ptr, &path);
    if (n < 0)
        return n;
    n = kr_other_fd(t, dirfd, path, &pn, &how);
    put_path(path);
    if (n < 0)
        return n;
    kr_sys1(__NR_close, n);
    kr_snprintf(like, sizeof like, "%lu/cwd", pn.pid);
    int dir = kr_proc_handle(rel, sizeof rel, like);
    memset(&u, 0, sizeof u);
    if (mask)
        n = kr_sys5(__NR_statx, (s64)dir, rel, AT_SYMLINK_NOFOLLOW, mask, &u.sx);
    else
        n = kr_sys4(__NR_newfstatat, (s64)dir, rel, &u.st, AT_SYMLINK_NOFOLLOW);
    if (n < 0)
        return n;
    u32 acc = how & O_ACCMODE;
    u32 mode = 0120000 | (how & O_PATH ? 0 : acc == O_RDONLY ? 0500 : acc == O_WRONLY ? 0300 : 0700);
    if (mask) {
        u.sx.stx_mode = (u16)mode;
        u.sx.stx_size = 64;
        u.sx.stx_ino ^= pn.n << 32;
    } else {
        u.st.h.mode = mode;
        u.st.size = 64;
        u.st.h.ino ^= pn.n << 32;
    }
    return kr_copy_out(buf, &u, mask ? sizeof u.sx : 144);
}

/* What to do about the kernel's EACCES: the path may lead over a link of another process (vmm/ask.h). */
static long stat_refused(struct kr_task *t, int dirfd, u64 ptr, u64 buf, u32 flags, long nr, const u64 a[6]) {
    if (flags & AT_SYMLINK_NOFOLLOW) {
        long n = lstat_other(t, dirfd, ptr, buf, nr == __NR_statx ? (u32)a[3] | STATX_TYPE : 0);
        if (n != -ESRCH)
            return n;
    }
    long again = stat_again(t, dirfd, ptr, flags, nr, a);
    return again < 0 && again != -KR_ERESTART && again != -ENOENT ? -EACCES : again;
}

/* The kernel's answer goes straight to the payload; only when it describes what may be the monitor's is it
 * looked at again. */
static long stat_checked(struct kr_task *t, int dirfd, u64 ptr, u64 buf, u32 flags, long nr, const u64 a[6]) {
    long n = kr_forward(nr, a);
    struct stat_head h;
    u8 first;
    if (n == -EACCES)
        return stat_refused(t, dirfd, ptr, buf, flags, nr, a);
    if (n < 0 || kr_copy_in(&h, buf, sizeof h) < 0)
        return n;
    if (!is_ours(h.mode, dev_major(h.dev), dev_minor(h.dev), h.ino, dev_major(h.rdev), dev_minor(h.rdev)))
        return n;
    if (flags & AT_EMPTY_PATH && (!ptr || (kr_copy_in(&first, ptr, 1) == 0 && !first)))
        return n; /* a descriptor of the payload's own: dispatch has checked it */
    return stat_again(t, dirfd, ptr, flags, nr, a);
}

long sys_stat(struct kr_task *t, const u64 a[6]) {
    return stat_checked(t, AT_FDCWD, a[0], a[1], 0, __NR_stat, a);
}

/* access(2) and relatives: the kernel's answer, and where it is EACCES that of what the path leads to over a
 * link of another process. */
static long access_checked(struct kr_task *t, int dirfd, u64 ptr, u64 mode, u32 flags, long nr,
                           const u64 a[6]) {
    char *path;
    long n = kr_forward(nr, a), fd;
    if (n != -EACCES || flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EACCESS) || get_path(ptr, &path) < 0)
        return n;
    fd = *path ? kr_open_path(t, dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0) : -ENOENT;
    put_path(path);
    if (fd < 0)
        return fd == -KR_ERESTART || fd == -ENOENT ? fd : n;
    n = kr_sys4(NR_FACCESSAT2, fd, "", mode, AT_EMPTY_PATH | (flags & AT_EACCESS));
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_access(struct kr_task *t, const u64 a[6]) {
    return access_checked(t, AT_FDCWD, a[0], a[1], 0, __NR_access, a);
}

long sys_faccessat(struct kr_task *t, const u64 a[6]) {
    return access_checked(t, (int)a[0], a[1], a[2], 0, __NR_faccessat, a);
}

long sys_faccessat2(struct kr_task *t, const u64 a[6]) {
    return access_checked(t, (int)a[0], a[1], a[2], (u32)a[3], NR_FACCESSAT2, a);
}

/* Links of procfs have no attributes: ls(1) asks. */
static long xattr_other(struct kr_task *t, u64 ptr, long n) {
    struct kr_proc_name pn;
    u32 how;
    char *path;
    if (n != -EACCES || get_path(ptr, &path) < 0)
        return n;
    long fd = kr_other_fd(t, AT_FDCWD, path, &pn, &how);
    put_path(path);
    if (fd < 0)
        return fd == -KR_ERESTART ? fd : n;
    kr_sys1(__NR_close, fd);
    return -EOPNOTSUPP;
}

long sys_lgetxattr(struct kr_task *t, const u64 a[6]) {
    return xattr_other(t, a[0], kr_forward(__NR_lgetxattr, a));
}

long sys_llistxattr(struct kr_task *t, const u64 a[6]) {
    return xattr_other(t, a[0], kr_forward(__NR_llistxattr, a));
}

long sys_lstat(struct kr_task *t, const u64 a[6]) {
    long n = kr_forward(__NR_lstat, a);
    return n == -EACCES ? stat_refused(t, AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW, __NR_lstat, a) : n;
}

long sys_fstat(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_forward(__NR_fstat, a);
}

long sys_newfstatat(struct kr_task *t, const u64 a[6]) {
    return stat_checked(t, (int)a[0], a[1], a[2], (u32)a[3], __NR_newfstatat, a);
}

long sys_statx(struct kr_task *t, const u64 a[6]) {
    long n = kr_forward(__NR_statx, a);
    struct statx sx;
    u8 first;
    if (n == -EACCES)
        return stat_refused(t, (int)a[0], a[1], a[4], (u32)a[2], __NR_statx, a);
    if (n < 0 || kr_copy_in(&sx, a[4], offsetof(struct statx, stx_mnt_id)) < 0)
        return n;
    if (!is_ours(sx.stx_mode, sx.stx_dev_major, sx.stx_dev_minor, sx.stx_ino, sx.stx_rdev_major,
                 sx.stx_rdev_minor))
        return n;
    if ((u32)a[2] & AT_EMPTY_PATH && (!a[1] || (kr_copy_in(&first, a[1], 1) == 0 && !first)))
        return n;
    return stat_again(t, (int)a[0], a[1], (u32)a[2], __NR_statx, a);
}

/* ---- Where relative paths start ----
 * The monitor's procfs handle is a directory without the masks and read-only mounts of the container's /proc:
 * a path must not lead there. */

/* The directory that a path leads to, O_PATH, or -errno. */
static long directory(struct kr_task *t, u64 ptr) {
    char *path;
    long n = get_path(ptr, &path);
    if (n < 0)
        return n;
    n = kr_open_path(t, AT_FDCWD, path, O_DIRECTORY);
    put_path(path);
    return n;
}

long sys_chdir(struct kr_task *t, const u64 a[6]) {
    long fd = directory(t, a[0]);
    if (fd < 0)
        return fd;
    long n = kr_sys1(__NR_fchdir, fd);
    kr_sys1(__NR_close, fd);
    return n;
}

long sys_chroot(struct kr_task *t, const u64 a[6]) {
    long fd = directory(t, a[0]);
    if (fd < 0)
        return fd;
    /* There is no fchroot: through the working directory, which comes back afterwards. */
    long back = kr_sys3(__NR_open, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    long n = back < 0 ? back : kr_sys1(__NR_fchdir, fd);
    if (n == 0) {
        n = kr_sys1(__NR_chroot, ".");
        kr_sys1(__NR_fchdir, back);
    }
    if (back >= 0)
        kr_sys1(__NR_close, back);
    kr_sys1(__NR_close, fd);
    return n;
}

/* An O_PATH open (anybody may), or a copy of a mount tree: what the path leads to is found and judged here,
 * and the call gets the descriptor. */
static long tree_of(struct kr_task *t, long nr, const u64 a[6]) {
    u32 flags = (u32)a[2];
    char *path;
    long n = get_path(a[1], &path);
    if (n < 0)
        return n;
    if (!*path) { /* a descriptor of the payload's own (dispatch has checked it), or its working directory */
        put_path(path);
        return kr_call_intr(nr, a[0], (u64) "", flags, a[3], a[4], 0);
    }
    long fd = kr_open_path(t, (int)a[0], path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0);
    put_path(path);
    if (fd < 0)
        return kr_path_error(nr, a, 1, fd);
    n = kr_call_intr(nr, (u64)fd, (u64) "", flags | AT_EMPTY_PATH, a[3], a[4], 0);
    kr_sys1(__NR_close, fd);
    if (n > fd) { /* as if the other had not been there */
        long low = kr_fd_dup((u64)n, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
        if (low >= 0) {
            kr_sys1(__NR_close, n);
            n = low;
        }
    }
    return n;
}

long sys_open_tree(struct kr_task *t, const u64 a[6]) { return tree_of(t, 428, a); }
long sys_open_tree_attr(struct kr_task *t, const u64 a[6]) { return tree_of(t, 467, a); }

/* ---- Numbers ---- */

long sys_close(struct kr_task *t, const u64 a[6]) {
    (void)t;
    if (kr_fd_hidden(a[0]))
        return -EBADF;
    return kr_forward(__NR_close, a);
}

long sys_close_range(struct kr_task *t, const u64 a[6]) {
    u64 flags = (u32)a[2];
    if (flags & CLOSE_RANGE_UNSHARE) {
        /* A thread with a descriptor table of its own would keep the monitor's files under numbers that are
         * forgotten here. Alone, nothing has to be unshared. */
        if (kr_files_shared(t))
            return -EINVAL;
        flags &= ~(u64)CLOSE_RANGE_UNSHARE;
    }
    return kr_fd_close_range(a[0], a[1], flags);
}

long sys_dup(struct kr_task *t, const u64 a[6]) {
    (void)t;
    return kr_fd_dup(a[0], F_DUPFD, 0);
}

/* While others share the table, check and call are one step: a number that is not hidden may become a vCPU's
 * in between. */
static long dup_to(struct kr_task *t, long nr, const u64 a[6]) {
    if (kr_fd_hidden(a[0]) || kr_fd_hidden(a[1]))
        return -EBADF;
    if (!kr_files_shared(t))
        return kr_call_intr(nr, a[0], a[1], a[2], 0, 0, 0);
    return kr_fd_dup_onto(a[0], a[1], nr == __NR_dup3 ? (u32)a[2] : 0);
}

long sys_dup2(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[0] == (u32)a[1]) { /* is it open? */
        long n = kr_fd_hidden(a[0]) ? -EBADF : kr_sys3(__NR_fcntl, (u32)a[0], F_GETFD, 0);
        return n < 0 ? n : (long)(u32)a[0];
    }
    return dup_to(t, __NR_dup2, a);
}

long sys_dup3(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[2] & ~(u32)O_CLOEXEC || (u32)a[0] == (u32)a[1])
        return -EINVAL;
    return dup_to(t, __NR_dup3, a);
}
