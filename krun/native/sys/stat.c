/* SPDX-License-Identifier: Apache-2.0
 * stat, statx, statfs, access and their relatives. The object of a path, or the directory of a name, is found
 * with judgement (path.h), so a magic link never shows a descriptor of the monitor. No state, no locks.
 */
#include "path.h"
#include "../lib/kr_linux.h"
#include "../view/ask.h"
#include "../view/place.h"

#define STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE)
#define CWD ((u64)(s64)AT_FDCWD)

/* The kernel's struct stat. */
struct stat_k {
    u64 dev, ino, nlink;
    u32 mode, uid, gid, pad;
    u64 rdev, size, blksize, rest[10];
};

/* What a call has found: struct statx if wide, else struct stat. */
struct found {
    int wide;
    u32 asks; /* the size is the number of descriptors of this process, which is to be asked; 0: the size is known */
    union {
        struct stat_k st;
        struct statx sx;
    };
};

static u64 size_of(const struct found *f) { return f->wide ? f->sx.stx_size : f->st.size; }

static void set_size(struct found *f, u64 size) {
    if (f->wide)
        f->sx.stx_size = size;
    else
        f->st.size = size;
}

/* ---- The size of /proc/PID/fd: the number of open descriptors (proc_fd_getattr(), Linux 6.2) ---- */

/* Whether f may be such a directory. All other directories of a procfs have the size 0. */
static int may_count(const struct found *f) {
    struct statx x = f->sx;
    if (!f->wide) {
        x.stx_mode = (u16)f->st.mode;
        x.stx_size = f->st.size;
        x.stx_dev_major = (u32)(f->st.dev >> 8) & 0xfff;
        x.stx_blksize = (u32)f->st.blksize;
    }
    return (x.stx_mode & S_IFMT) == S_IFDIR && x.stx_size && kr_maybe_proc(&x);
}

/* Takes the monitor's descriptors out of the size of fd, or writes down whom to ask. own: how many descriptors this
 * call has open. */
static void count(struct kr_task *t, int fd, u32 own, struct found *f) {
    u32 pid = 0;
    int kind = kr_dir_kind(t, fd, &pid);
    if (kind == KR_DIR_FDS) {
        u32 n = kr_fd_hidden_count() + own;
        set_size(f, size_of(f) > n ? size_of(f) - n : 0);
    } else if (kind == KR_DIR_FDS_OTHER) {
        f->asks = pid;
    }
}

/* Completes f. n: the result of the call that has filled f from the descriptor fd, or AT_FDCWD. own: as in count().
 * n. */
static long filled(int fd, u32 own, long n, struct found *f) {
    if (n < 0 || !may_count(f))
        return n;
    long at = fd == AT_FDCWD ? kr_open_plain(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0) : fd;
    if (at >= 0)
        count(kr_self(), (int)at, own, f);
    if (fd == AT_FDCWD)
        kr_fd_shut(at);
    return n;
}

/* Brings f to the payload; on the thread of the call, because a kr_use_fn touches no memory of the payload. A process
 * that does not answer keeps the kernel's number. n: the result so far. n, or -EFAULT. */
static long give(struct kr_task *t, long n, struct found *f, u64 buf) {
    u32 fds_n, *fds;
    size_t bytes;
    if (n < 0)
        return n;
    if (f->asks && kr_ask_fds(t, f->asks, KR_PE_FD, &fds, &fds_n, &bytes) == 0) {
        kr_free(fds, bytes);
        set_size(f, fds_n);
    }
    return kr_copy_out(buf, f->wide ? (const void *)&f->sx : &f->st, f->wide ? sizeof f->sx : sizeof f->st);
}

/* lstat of /proc/PID/fd/N of another process, which the kernel refuses: the values that a procfs would give.
 * -ESRCH if name is no such descriptor. */
static long lstat_other(struct kr_task *t, int dirfd, const char *name, u64 buf, u32 mask) {
    struct kr_proc_name pn;
    struct found f = {.wide = mask != 0};
    char rel[64], like[32];
    u32 how;
    long n = kr_other_fd(t, dirfd, name, &pn, &how);
    if (n < 0)
        return n;
    kr_fd_shut(n);
    kr_snprintf(like, sizeof like, "%lu/cwd", pn.pid);
    int dir = kr_proc_handle(rel, sizeof rel, like);
    if (mask)
        n = kr_sys5(__NR_statx, (s64)dir, rel, AT_SYMLINK_NOFOLLOW, mask, &f.sx);
    else
        n = kr_sys4(__NR_newfstatat, (s64)dir, rel, &f.st, AT_SYMLINK_NOFOLLOW);
    if (n < 0)
        return n;
    u32 acc = how & O_ACCMODE;
    u32 mode = S_IFLNK | (how & O_PATH ? 0 : acc == O_RDONLY ? 0500 : acc == O_WRONLY ? 0300 : 0700);
    if (mask) {
        f.sx.stx_mode = (u16)mode;
        f.sx.stx_size = 64;
        f.sx.stx_ino ^= pn.n << 32;
    } else {
        f.st.mode = mode;
        f.st.size = 64;
        f.st.ino ^= pn.n << 32;
    }
    return give(t, 0, &f, buf);
}

/* ---- stat ---- */

/* b: struct found */
static long fstat_of(int fd, const u64 *b) {
    struct found *f = (struct found *)b[0];
    return filled(fd, 1, kr_sys2(__NR_fstat, fd, &f->st), f);
}

/* b: struct found, flags, mask */
static long statx_of(int fd, const u64 *b) {
    struct found *f = (struct found *)b[0];
    u64 flags = (b[1] | AT_EMPTY_PATH) & ~(u64)AT_SYMLINK_NOFOLLOW;
    return filled(fd, 1, kr_sys5(__NR_statx, fd, "", flags, b[2], &f->sx), f);
}

long sys_fstat(struct kr_task *t, const u64 a[6]) {
    struct found f = {.wide = 0};
    long n = filled((int)a[0], 0, kr_call_intr(__NR_fstat, a[0], (u64)&f.st, 0, 0, 0, 0), &f);
    return give(t, n, &f, a[1]);
}

/* Whether path is one component and not a number (as in /proc/PID/fd): the kernel's walk follows nothing. */
static int is_simple(const char *path) {
    const char *name = path + (path[0] == '/');
    return *name && !strchr(name, '/') && (*name < '0' || *name > '9');
}

/* A call: its flags, its mask (0: struct stat), where the result goes. */
struct wanted {
    u32 flags, mask;
    u64 buf;
    int wide; /* statx(2) */
};

/* The values of the object of the path. */
static long stat_object(struct kr_task *t, u64 dirfd, u64 ptr, const struct wanted *w) {
    struct found f = {.wide = w->wide};
    const u64 b[3] = {(u64)&f, w->flags, w->mask};
    long n = kr_path_use(t, dirfd, ptr, w->flags, w->wide ? statx_of : fstat_of, b);
    return give(t, n, &f, w->buf);
}

/* For calls that do not follow the last link: the kernel's own call on a simple name. */
static long stat_link(struct kr_task *t, u64 dirfd, u64 ptr, const struct wanted *w) {
    struct found is = {.wide = w->wide};
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    int simple = is_simple(path);
    if (simple && w->wide)
        n = kr_sys5(__NR_statx, (s64)(int)dirfd, path, w->flags, w->mask, &is.sx);
    else if (simple)
        n = kr_sys4(__NR_newfstatat, (s64)(int)dirfd, path, &is.st, w->flags);
    if (!simple || (n >= 0 && may_count(&is)))
        n = stat_object(t, dirfd, ptr, w);
    else
        n = give(t, n, &is, w->buf);
    if (n == -EACCES) {
        long other = lstat_other(t, (int)dirfd, path, w->buf, w->wide ? w->mask | STATX_TYPE : 0);
        n = other == -ESRCH ? n : other;
    }
    kr_path_put(path);
    return n;
}

static long stat_path(struct kr_task *t, u64 dirfd, u64 ptr, const struct wanted *w) {
    return w->flags & AT_SYMLINK_NOFOLLOW ? stat_link(t, dirfd, ptr, w) : stat_object(t, dirfd, ptr, w);
}

long sys_stat(struct kr_task *t, const u64 a[6]) {
    return stat_object(t, CWD, a[0], &(struct wanted){.buf = a[1]});
}

long sys_lstat(struct kr_task *t, const u64 a[6]) {
    return stat_path(t, CWD, a[0], &(struct wanted){.flags = AT_SYMLINK_NOFOLLOW, .buf = a[1]});
}

long sys_newfstatat(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (flags & AT_EMPTY_PATH && kr_path_empty(a[1])) {
        struct found f = {.wide = 0};
        long n = kr_call_intr(__NR_newfstatat, a[0], kr_path_nothing(a[1]), (u64)&f.st, flags, 0, 0);
        return give(t, filled((int)a[0], 0, n, &f), &f, a[2]);
    }
    if (flags & ~(u32)(STAT_FLAGS))
        return kr_path_error(__NR_newfstatat, a, 1, -EINVAL);
    return stat_path(t, a[0], a[1], &(struct wanted){.flags = flags, .buf = a[2]});
}

long sys_statx(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[2];
    struct wanted w = {.flags = flags, .mask = (u32)a[3], .buf = a[4], .wide = 1};
    if (flags & AT_EMPTY_PATH && kr_path_empty(a[1])) {
        struct found f = {.wide = 1};
        long n = kr_call_intr(__NR_statx, a[0], kr_path_nothing(a[1]), flags, w.mask, (u64)&f.sx, 0);
        return give(t, filled((int)a[0], 0, n, &f), &f, w.buf);
    }
    if (flags & ~(u32)(STAT_FLAGS) || (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE ||
        w.mask & STATX__RESERVED)
        return kr_path_error(__NR_statx, a, 1, -EINVAL);
    return stat_path(t, a[0], a[1], &w);
}

/* ---- statfs ---- */

static long fstatfs_of(int fd, const u64 *b) { return kr_sys2(__NR_fstatfs, fd, b[0]); }

long sys_statfs(struct kr_task *t, const u64 a[6]) { return kr_path_use(t, CWD, a[0], 0, fstatfs_of, a + 1); }

/* ---- access ---- */

/* b: mode, flags */
static long access_of(int fd, const u64 *b) {
    return kr_sys4(__NR_faccessat2, fd, "", b[0], AT_EMPTY_PATH | (b[1] & AT_EACCESS));
}

/* Whether paths are walked with other rights than the real ids have (access_override_creds() in fs/open.c). */
static int walks_as_other(void) {
    u32 uid[3], gid[3];
    struct {
        u32 version;
        s32 pid;
    } head = {.version = 0x20080522}; /* _LINUX_CAPABILITY_VERSION_3 */
    u32 cap[6] = {0};                 /* effective, permitted, inheritable; twice */
    if (kr_sys3(__NR_getresuid, &uid[0], &uid[1], &uid[2]) < 0 ||
        kr_sys3(__NR_getresgid, &gid[0], &gid[1], &gid[2]) < 0)
        return 1;
    return uid[0] != (u32)kr_sys1(__NR_setfsuid, -1) || gid[0] != (u32)kr_sys1(__NR_setfsgid, -1) ||
           (uid[0] && (kr_sys2(__NR_capget, &head, cap) < 0 || cap[0] || cap[3]));
}

static long access_path(struct kr_task *t, u64 dirfd, u64 ptr, u64 mode, u32 flags) {
    char *path;
    long real;
    if ((u32)mode & ~7u) /* Linux checks it before the path; an int */
        return -EINVAL;
    long r = kr_path_use(t, dirfd, ptr, flags, access_of, (u64[]){mode & 7, flags});
    if ((r < 0 && r != -ENOENT && r != -ENOTDIR) || flags & AT_EACCESS || !walks_as_other())
        return r;
    real = kr_path_copy(ptr, &path);
    if (real < 0)
        return real;
    real = kr_walk_real(t, (int)dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW));
    kr_path_put(path);
    return r == 0 || real == -EACCES ? real : r;
}

long sys_access(struct kr_task *t, const u64 a[6]) { return access_path(t, CWD, a[0], a[1], 0); }
long sys_faccessat(struct kr_task *t, const u64 a[6]) { return access_path(t, a[0], a[1], a[2], 0); }

long sys_faccessat2(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[3];
    if (flags & AT_EMPTY_PATH && kr_path_empty(a[1]))
        return kr_path_itself(__NR_faccessat2, a);
    if (flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EACCESS | AT_EMPTY_PATH))
        return -EINVAL;
    return access_path(t, a[0], a[1], a[2], flags);
}
