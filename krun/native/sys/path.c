/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the object of a path, and calls on objects: mode, owner, times, length, handles, files for the
 * kernel's use (acct, swapon, quota files). path.h explains the rules.
 *
 * No state, no locks.
 */
#include "path.h"
#include "table.h"
#include "../lib/kr_linux.h"
#include "../process/process.h"
#include "../view/found.h"
#include "../view/mapfiles.h"
#include "../view/procfs.h"
#include <linux/openat2.h>

#define PATH_ROOM 4096u
#define CWD ((u64)(s64)AT_FDCWD)

/* ---- Finding ---- */

long kr_path_copy(u64 ptr, char **path) {
    char *p = kr_alloc_any(PATH_ROOM);
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

void kr_path_put(char *path) { kr_free(path, PATH_ROOM); }

/* Opens a private copy of a path with O_PATH. Descriptor or -errno. */
static long find(struct kr_task *t, int dirfd, const char *path, u32 flags) {
    return *path ? kr_open_path(t, dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0) : -ENOENT;
}

long kr_path_find(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags) {
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    n = find(t, (int)dirfd, path, flags);
    kr_path_put(path);
    return n;
}

struct use {
    int dirfd;
    u32 flags;
    const char *path;
    kr_use_fn *fn;
    const u64 *b;
};

/* Runs on a thread with a copy of a descriptor table that has no free number: it closes a standard descriptor
 * of the copy to make room. */
static long use_with_room(void *arg) {
    const struct use *u = arg;
    if (kr_map_in(u->path)) /* its directories cannot be judged here (view/mapfiles.h) */
        return -EMFILE;
    kr_sys1(__NR_close, u->dirfd == 0);
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (u->flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0),
                           .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = kr_sys4(__NR_openat2, (s64)u->dirfd, u->path, &how, sizeof how);
    if (fd == -EPERM) /* a link to a name of map_files that is there (view/mapfiles.h) */
        return -ENOENT;
    return fd >= 0 ? u->fn((int)fd, u->b) : fd == -ELOOP || fd == -EACCES ? -EMFILE : fd;
}

long kr_path_use_alone(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags, kr_use_fn *fn, const u64 *b) {
    struct use u = {.dirfd = (int)dirfd, .flags = flags, .fn = fn, .b = b};
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return n;
    u.path = path;
    n = kr_alone(t, use_with_room, &u);
    kr_path_put(path);
    return n;
}

long kr_path_use(struct kr_task *t, u64 dirfd, u64 ptr, u32 flags, kr_use_fn *fn, const u64 *b) {
    long fd = kr_path_find(t, dirfd, ptr, flags);
    if (fd == -EMFILE)
        return kr_path_use_alone(t, dirfd, ptr, flags, fn, b);
    if (fd < 0)
        return fd;
    long n = fn((int)fd, b);
    kr_fd_shut(fd);
    return n;
}

/* Whether the kernel reads the path of this call before all other arguments: then no other error can come
 * first. The monitor makes none of these host calls, and the jail does not allow them (filter/jail.c). */
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
    b[i] = KR_BAD_PTR; /* the kernel gets no further than the path */
    const struct kr_sys_row *row = kr_sys_row((u64)nr);
    for (u32 k = 0; row && k < row->nargs; k++) /* nor does it walk another path of the payload before */
        if (KR_ARG_KIND(row->arg[k]) == KR_ARG_PATH && kr_span_ok(b[k], 1))
            b[k] = KR_BAD_PTR;
    long r = kr_sys6(nr, b[0], b[1], b[2], b[3], b[4], b[5]);
    return r == -EFAULT || r >= 0 ? err : r;
}

int kr_path_empty(u64 ptr) {
    u8 first;
    return !ptr || (kr_copy_in(&first, ptr, 1) == 0 && !first);
}

long kr_path_itself(long nr, const u64 a[6]) {
    u64 b[6];
    memcpy(b, a, sizeof b);
    b[1] = kr_path_nothing(a[1]);
    return kr_forward(nr, b);
}

static int is_own_fd(u64 ptr, u32 flags) { return (flags & AT_EMPTY_PATH) && kr_path_empty(ptr); }

/* Makes the call b[0](handle, path of fd, b[1], b[2]), for calls that take a directory and follow links. */
static long through(int fd, const u64 *b) {
    char rel[64];
    int dir = kr_proc_self_fd(rel, sizeof rel, fd);
    return kr_call_intr((long)b[0], (u64)(s64)dir, (u64)rel, b[1], b[2], 0, 0);
}

/* Whether the call has a path to walk and known flags. Otherwise the kernel answers (not_plain). */
static int is_plain(u64 ptr, u32 flags) {
    return !(flags & ~(u32)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) && !is_own_fd(ptr, flags);
}

/* The kernel's answer where is_plain() is 0; the kernel gets no path to walk. The flags are argument number
 * `at`. */
static long not_plain(long nr, const u64 a[6], int at) {
    return is_own_fd(a[1], (u32)a[at]) ? kr_path_itself(nr, a) : kr_path_error(nr, a, 1, -EINVAL);
}

/* ---- mode ---- */

long sys_chmod(struct kr_task *t, const u64 a[6]) {
    return kr_path_use(t, CWD, a[0], 0, through, (u64[]){__NR_fchmodat, a[1], 0});
}

long sys_fchmodat(struct kr_task *t, const u64 a[6]) {
    return kr_path_use(t, a[0], a[1], 0, through, (u64[]){__NR_fchmodat, a[2], 0});
}

long sys_fchmodat2(struct kr_task *t, const u64 a[6]) {
    if (!is_plain(a[1], (u32)a[3]))
        return not_plain(__NR_fchmodat2, a, 3);
    return kr_path_use(t, a[0], a[1], (u32)a[3], through, (u64[]){__NR_fchmodat, a[2], 0});
}

/* ---- owner ---- */

static long own(int fd, const u64 *b) {
    return kr_call_intr(__NR_fchownat, (u64)fd, (u64) "", b[0], b[1], AT_EMPTY_PATH, 0);
}

long sys_chown(struct kr_task *t, const u64 a[6]) { return kr_path_use(t, CWD, a[0], 0, own, a + 1); }

long sys_lchown(struct kr_task *t, const u64 a[6]) {
    return kr_path_use(t, CWD, a[0], AT_SYMLINK_NOFOLLOW, own, a + 1);
}

long sys_fchownat(struct kr_task *t, const u64 a[6]) {
    if (!is_plain(a[1], (u32)a[4]))
        return not_plain(__NR_fchownat, a, 4);
    return kr_path_use(t, a[0], a[1], (u32)a[4], own, a + 2);
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
    return kr_path_use(t, CWD, a[0], 0, through, (u64[]){__NR_futimesat, a[1] ? (u64)tv : 0, 0});
}

long sys_utimes(struct kr_task *t, const u64 a[6]) {
    return kr_path_use(t, CWD, a[0], 0, through, (u64[]){__NR_futimesat, a[1], 0});
}

long sys_futimesat(struct kr_task *t, const u64 a[6]) {
    if (!a[1]) /* of the descriptor */
        return kr_forward(__NR_futimesat, a);
    return kr_path_use(t, a[0], a[1], 0, through, (u64[]){__NR_futimesat, a[2], 0});
}

long sys_utimensat(struct kr_task *t, const u64 a[6]) {
    if (!a[1]) /* of the descriptor */
        return kr_forward(__NR_utimensat, a);
    if (!is_plain(a[1], (u32)a[3]))
        return not_plain(__NR_utimensat, a, 3);
    return kr_path_use(t, a[0], a[1], (u32)a[3], through, (u64[]){__NR_utimensat, a[2], 0});
}

/* ---- length ---- */

/* Sets the length of fd, which stands where no other thread can exchange it. Only a regular file outside of a
 * procfs is opened for writing, because an entry of a procfs would show the monitor. An entry of a procfs has
 * no length to set: the payload's permission to write it decides. 0 or -errno. */
static long truncate_fd(int fd, u64 length) {
    struct statx st;
    char rel[64];
    long n = kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
    u32 type = st.stx_mode & S_IFMT;
    if (n < 0)
        return n;
    if (type != S_IFREG)
        return type == S_IFDIR ? -EISDIR : -EINVAL;
    n = kr_may_write(fd);
    if (n == -EACCES)
        return kr_sys4(__NR_faccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS);
    if (n < 0)
        return n;
    int dir = kr_proc_self_fd(rel, sizeof rel, fd);
    n = kr_call_intr(__NR_openat, (u64)(s64)dir, (u64)rel, O_WRONLY | O_CLOEXEC, 0, 0, 0);
    if (n < 0)
        return n;
    long r = kr_call_intr(__NR_ftruncate, (u64)n, length, 0, 0, 0, 0);
    kr_fd_shut(n);
    return r;
}

struct cut {
    int fd;
    u64 length;
};

static long truncate_in_copy(void *arg) {
    const struct cut *c = arg;
    return truncate_fd(c->fd, c->length);
}

long sys_truncate(struct kr_task *t, const u64 a[6]) {
    if ((s64)a[1] < 0)
        return -EINVAL;
    long fd = kr_path_find(t, CWD, a[0], 0);
    if (fd >= 0)
        fd = kr_slot_put(t, (int)fd);
    if (fd < 0)
        return fd;
    if (!kr_slot_linger((int)fd)) { /* another process may hold a lease on the file (F_SETLEASE) */
        kr_slot_free((int)fd);
        return kr_found_later(t);
    }
    u32 locks = __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_RECORD_LOCKS;
    long n = locks ? kr_alone(t, truncate_in_copy, &(struct cut){(int)fd, a[1]}) : truncate_fd((int)fd, a[1]);
    kr_slot_free((int)fd);
    return n;
}

/* ---- through the monitor's procfs ---- */

long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg) {
    u32 flags = (u32)a[flags_arg];
    char rel[64];
    if (!is_plain(a[1], flags))
        return not_plain(nr, a, flags_arg);
    long fd = kr_path_find(t, a[0], a[1], flags);
    if (fd < 0) /* an older kernel does not have the call: ENOSYS comes before what the path gives */
        return kr_path_error(nr, a, 1, fd);
    u64 b[6];
    memcpy(b, a, sizeof b);
    b[0] = (u64)(s64)kr_proc_self_fd(rel, sizeof rel, (int)fd);
    b[1] = (u64)rel;
    b[flags_arg] = 0;
    long n = kr_forward(nr, b);
    kr_fd_shut(fd);
    return n;
}

long kr_path_from(struct kr_task *t, long fd, long nr, const u64 a[6], int at) {
    char rel[64];
    u64 b[6];
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    memcpy(b, a, sizeof b);
    b[at] = (u64)rel;
    long n = kr_call_from(t, dir, nr, b);
    kr_fd_shut(fd);
    return n;
}

long sys_file_getattr(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, __NR_file_getattr, a, 4); }
long sys_file_setattr(struct kr_task *t, const u64 a[6]) { return kr_path_at(t, __NR_file_setattr, a, 4); }

long sys_name_to_handle_at(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    if (is_own_fd(a[1], flags))
        return kr_path_itself(__NR_name_to_handle_at, a);
    long fd = kr_path_find(t, a[0], a[1], flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return kr_path_error(__NR_name_to_handle_at, a, 1, fd);
    long n = kr_call_intr(__NR_name_to_handle_at, (u64)fd, (u64) "", a[2], a[3],
                          (flags & ~(u32)AT_SYMLINK_FOLLOW) | AT_EMPTY_PATH, 0);
    kr_fd_shut(fd);
    return n;
}

/* ---- files for the kernel's use ---- */

/* A privileged call whose only path is argument 0, and by which the kernel opens the object for writing. */
static long use(struct kr_task *t, long nr, const u64 a[6]) {
    char rel[64];
    u64 b[6];
    long fd = kr_path_find(t, CWD, a[0], 0);
    if (fd < 0)
        return kr_path_error(nr, a, 0, fd);
    fd = kr_slot_put(
        t, (int)fd); /* no other thread can exchange it between the judgement and the kernel's open */
    if (fd < 0)
        return fd;
    long n = kr_may_write((int)fd);
    if (n < 0) {
        n = kr_path_error(nr, a, 0, n);
    } else {
        int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
        memcpy(b, a, sizeof b);
        b[0] = (u64)rel;
        n = kr_call_from(t, dir, nr, b);
    }
    kr_slot_free((int)fd);
    return n;
}

long sys_acct(struct kr_task *t, const u64 a[6]) {
    return a[0] ? use(t, __NR_acct, a) : kr_forward(__NR_acct, a); /* off */
}

long sys_swapon(struct kr_task *t, const u64 a[6]) { return use(t, __NR_swapon, a); }
long sys_swapoff(struct kr_task *t, const u64 a[6]) { return use(t, __NR_swapoff, a); }

/* The device is a path; for Q_QUOTAON the last argument is a path as well, which the kernel walks first. */
long sys_quotactl(struct kr_task *t, const u64 a[6]) {
    const u32 quotaon = 0x800002;
    char file[64];
    u64 b[6];
    memcpy(b, a, sizeof b);
    int has_file = (u32)a[0] >> 8 == quotaon;
    if (has_file)
        b[3] = KR_BAD_PTR; /* never the payload's */
    if (!a[1])
        return kr_forward(__NR_quotactl, b);
    long fd = kr_path_find(t, CWD, a[1], 0), quota = -1;
    if (fd < 0)
        return kr_path_error(__NR_quotactl, b, 1, fd);
    if (has_file) {
        quota = kr_path_find(t, CWD, a[3], 0);
        if (quota >= 0) {
            kr_proc_self_fd(file, sizeof file, (int)quota);
            b[3] = (u64)file;
        }
    }
    long n = kr_path_from(t, fd, __NR_quotactl, b, 1);
    kr_fd_shut(quota);
    return n;
}
