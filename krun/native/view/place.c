/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entry of a procfs a descriptor is, and the verdict on it (place.h).
 *
 * State: the block size of a procfs, found once. No locks.
 */
#include "place.h"
#include "../machine/fdtab.h"
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <asm/statfs.h>

#define HAS_MOUNT (STATX_MNT_ID | KR_STATX_MNT_ID_UNIQUE)

long kr_open_plain(int dirfd, const char *path, u64 flags, u64 resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
    return kr_sys4(__NR_openat2, (s64)dirfd, path, &how, sizeof how);
}

long kr_stat_fd(int fd, struct statx *sx) {
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                   STATX_TYPE | STATX_MODE | STATX_INO | STATX_MNT_ID | KR_STATX_MNT_ID_UNIQUE, sx);
}

/* A procfs has an anonymous device number (major 0) and blocks of 1 KiB. The block size is read from the
 * monitor's own procfs, because a later kernel may change it. */
int kr_maybe_proc(const struct statx *sx) {
    static u32 block;
    if (sx->stx_dev_major != 0)
        return 0;
    u32 b = __atomic_load_n(&block, __ATOMIC_RELAXED);
    if (!b) {
        struct statx px;
        b = kr_boot.fd_proc >= 0 && kr_stat_fd(kr_boot.fd_proc, &px) == 0 ? px.stx_blksize : 1024;
        __atomic_store_n(&block, b, __ATOMIC_RELAXED);
    }
    return sx->stx_blksize == b;
}

int kr_on_proc(int fd, const struct statx *sx) {
    struct statfs sf;
    return kr_maybe_proc(sx) && (kr_sys2(__NR_fstatfs, fd, &sf) < 0 || sf.f_type == PROC_SUPER_MAGIC);
}

/* Character devices by which a program tells the kernel addresses of its process without ioctl(2), or answers for the kernel's
 * access to another one (Documentation/admin-guide/devices.txt has the numbers). The process is the monitor's. */
static const struct {
    u32 major, first, last;
    const char *name;
} devices[] = {
    {10, 203, 203,
     "/dev/cuse: it makes devices whose ioctl(2) reaches any memory of the caller (FUSE_IOCTL_RETRY)"},
    {10, 239, 239, "/dev/uhid: UHID_CREATE has a pointer"},
    {21, 0, ~0u, "/dev/sg*: struct sg_io_hdr has pointers"},
    {231, 192, 223, "/dev/infiniband/uverbs*: commands have pointers"},
    {233, 0, ~0u, "/dev/ipath*: commands have pointers"},
};

static int device_refused(const struct statx *sx) {
    for (u32 i = 0; i < KR_COUNT(devices); i++)
        if (sx->stx_rdev_major == devices[i].major && sx->stx_rdev_minor >= devices[i].first &&
            sx->stx_rdev_minor <= devices[i].last) {
            kr_log("open: refused for writing: %s", devices[i].name);
            return -EPERM;
        }
    return 0;
}

/* The type of the file system decides, not how it came here: a table of types that may be mounted (sys/fstype.c) does not see
 * what the host mounts in a directory that the container has. A file system that does not tell its type counts as one. */
int kr_write_refused(int fd, const struct statx *sx, u64 flags) {
    struct statfs sf;
    if ((flags & O_ACCMODE) == O_RDONLY)
        return 0;
    if ((sx->stx_mode & S_IFMT) == S_IFCHR)
        return device_refused(sx);
    if (sx->stx_dev_major != 0 || (sx->stx_mode & S_IFMT) != S_IFREG ||
        (kr_sys2(__NR_fstatfs, fd, &sf) == 0 && sf.f_type != BINFMTFS_MAGIC))
        return 0;
    kr_log(
        "open: a file of binfmt_misc may be read only: its entries would run programs of the image natively");
    return -EROFS;
}

/* ---- The name of a descriptor on a procfs ---- */

/* The octal escapes of mountinfo, in place. */
static void unescape(char *s) {
    char *d = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *d++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *d++ = *s;
        }
    }
    *d = 0;
}

/* Finds mount `id`: its root within its file system and its mount point, in buf (mountinfo's text). 0 or
 * -ENOENT. */
static int find_mount(char *text, u64 id, char **root, char **point) {
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        const char *p;
        if (kr_strtou(line, &p) == id && *p == ' ') {
            char *f = line;
            for (int i = 0; i < 3 && f; i++) {
                f = strchr(f, ' ');
                f = f ? f + 1 : NULL;
            }
            char *g = f ? strchr(f, ' ') : NULL;
            char *h = g ? strchr(g + 1, ' ') : NULL;
            if (!h)
                return -ENOENT;
            *g = 0;
            *h = 0;
            *root = f;
            *point = g + 1;
            unescape(*root);
            unescape(*point);
            return 0;
        }
        line = end ? end + 1 : NULL;
    }
    return -ENOENT;
}

/* Strips the mark of an unlinked entry. An entry can be unlinked and still have a text: fd/N and fdinfo/N of a number that is
 * open again. */
static void strip(char *s, const char *mark) {
    size_t n = strlen(s), k = strlen(mark);
    if (n > k && memcmp(s + n - k, mark, k) == 0)
        s[n - k] = 0;
}

/* -EACCES if base is the name of an entry with power over a process (mem, exe, maps, ...) and the parsed
 * place w is not that entry; else 0. */
static int understood(const char *base, const struct kr_proc_name *w) {
    enum kr_proc_entry e = kr_proc_entry_of(base);
    return w->entry == KR_PE_OTHER && e != KR_PE_OTHER && !kr_proc_figures(e) && e != KR_PE_FD &&
                   e != KR_PE_FDINFO && e != KR_PE_CWD && e != KR_PE_ROOT
               ? -EACCES
               : 0;
}

int kr_place_path(int fd, char *path) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, fd);
    long n = kr_sys4(__NR_readlinkat, dir, link, path, KR_PATH_ROOM - 1);
    path[n > 0 ? n : 0] = 0;
    if (n <= 0 || n >= (long)KR_PATH_ROOM - 1 || path[0] != '/')
        return -EACCES;
    strip(path, " (deleted)"); /* d_path() in the kernel */
    return 0;
}

/* Whether fd is the root of its mount. A kernel that does not tell (before Linux 5.8) gives no mount either: then the name is
 * looked for in the mount table, and not found. */
static int is_mount_root(const struct statx *sx) {
    return !(sx->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) || sx->stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static const char *base_of(const char *path) {
    const char *base = strrchr(path, '/');
    return base ? base + 1 : path;
}

/* The common case: a whole procfs is mounted on /proc, and path lies below. */
static int below_proc(const struct statx *sx, const char *path) {
    struct statx root;
    return strncmp(path, "/proc/", 6) == 0 && !is_mount_root(sx) &&
           kr_sys5(__NR_statx, AT_FDCWD, "/proc", AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
                   STATX_INO | STATX_MNT_ID | KR_STATX_MNT_ID_UNIQUE, &root) == 0 &&
           root.stx_mnt_id == sx->stx_mnt_id && (root.stx_mask & HAS_MOUNT) == (sx->stx_mask & HAS_MOUNT) &&
           (root.stx_attributes & STATX_ATTR_MOUNT_ROOT) && root.stx_ino == 1;
}

/* Makes of path, the kernel's path of a descriptor, the name below the root of its procfs, by the mount table. *top: that root, or
 * negative. 0; -EACCES if
 * the mount is not in the table of the calling process (it has no place, or one in another mount namespace), or moves. */
static int from_table(struct kr_task *t, int fd, const struct statx *sx, char *path, long *top) {
    size_t size, len;
    struct statx st; /* with the id that the table has */
    if (kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) < 0)
        return -EACCES;
    char *text = kr_proc_slurp(t, "thread-self/mountinfo", &size, &len), *root, *point;
    int ret = -EACCES;
    if (!text)
        return ret;
    if (find_mount(text, st.stx_mnt_id, &root, &point) == 0) {
        strip(root, "//deleted"); /* dentry_path() in the kernel */
        size_t pl = strcmp(point, "/") == 0 ? 0 : strlen(point),
               rl = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(path, point, pl) == 0 && (path[pl] == '/' || !path[pl]) &&
            (path[pl] == 0) == is_mount_root(sx) && rl + strlen(path + pl) < KR_PATH_ROOM) {
            memmove(path + rl, path + pl, strlen(path + pl) + 1);
            memcpy(path, root, rl);
            ret = 0;
            /* Of a mount of a part of a procfs only the instance on /proc can be asked; kr_place_numbers compares. */
            *top = rl ? -1 : kr_open_plain(AT_FDCWD, point, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
        }
    }
    kr_free(text, size);
    return ret;
}

/* Whether it matters which process an entry belongs to. */
static int concerns_process(enum kr_proc_entry e) {
    return e != KR_PE_OTHER && e != KR_PE_REFUSED && e != KR_PE_MAP_FILES && e != KR_PE_MAP_FILES_N;
}

/* The descriptor pins its mount, so no other mount gets the mount's id meanwhile. If another thread moves a
 * mount between the steps, the directories of the name are wrong, but the last component is right: for the
 * root of a mount it comes from mountinfo, for all others from the kernel's path. So no text is mistaken for
 * a text of another kind. A link that is mistaken for a link of another process is asked of that process
 * (walk.c). A suspect name that does not have the form PID/entry is refused. */
int kr_place_name(struct kr_task *t, int fd, const struct statx *sx, char *path, struct kr_proc_name *out) {
    memset(out, 0, sizeof *out);
    long top = -1;
    if (kr_place_path(fd, path) < 0 || !(sx->stx_mask & HAS_MOUNT))
        return -EACCES;
    if (!is_mount_root(sx) && *base_of(path) && !kr_proc_suspect(base_of(path)))
        return 0; /* not the root of a mount: the path ends in the name of the dentry */
    if (below_proc(sx, path))
        memmove(path, path + 5, strlen(path + 5) + 1);
    else if (from_table(t, fd, sx, path, &top) < 0)
        return -EACCES;
    kr_proc_parse(path[0] == '/' ? path + 1 : path, out);
    if (concerns_process(out->entry))
        kr_place_numbers(t, sx, (int)top, out);
    kr_fd_shut(top);
    return understood(base_of(path), out);
}

int kr_place_plain_dir(int fd, const struct statx *sx, char *path) {
    struct statx link;
    if (kr_place_path(fd, path) < 0)
        return 0;
    if (is_mount_root(sx)) /* the root of a procfs has this link, and no other directory has it */
        return kr_sys5(__NR_statx, fd, "thread-self", AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_TYPE,
                       &link) == 0 &&
               KR_IS_LINK(link.stx_mode) && sx->stx_ino == 1;
    const char *base = base_of(path);
    enum kr_proc_entry e = kr_proc_entry_of(base);
    return *base && e != KR_PE_FD && e != KR_PE_FDINFO && e != KR_PE_MAP_FILES && strcmp(base, "task") != 0;
}

int kr_place_own(const struct kr_proc_name *w) {
    if (!(w->numbers & KR_NUMBERS_MINE))
        return w->self && w->self == w->pid;
    long pid = kr_sys0(__NR_getpid);
    return (u64)pid == w->pid || (w->pid && w->pid < 0x7fffffff && kr_sys3(__NR_tgkill, pid, w->pid, 0) == 0);
}

/* ---- Judging ---- */

enum kr_verdict kr_judge(struct kr_task *t, int fd, const struct statx *sx, struct kr_proc_name *w) {
    char *path = kr_alloc_any(KR_PATH_ROOM);
    if (!path)
        return KR_V_DENY;
    int r = kr_place_name(t, fd, sx, path, w);
    kr_free(path, KR_PATH_ROOM);
    if (r < 0)
        return KR_V_DENY;
    switch (w->entry) {
    case KR_PE_OTHER:
    case KR_PE_FD:
    case KR_PE_FDINFO:
    case KR_PE_MAP_FILES:
    case KR_PE_TASK:
        return KR_V_PASS;
    case KR_PE_MEM:
    case KR_PE_PAGEMAP:
    case KR_PE_CLEAR_REFS:
    case KR_PE_REFUSED:
        return KR_V_DENY; /* of any process: other processes are monitors as well */
    case KR_PE_MAP_FILES_N:
        return KR_V_ABSENT; /* the same: mapfiles.h */
    case KR_PE_FD_N:
        return !kr_place_own(w) ? KR_V_LINK : kr_fd_hidden(w->n) ? KR_V_ABSENT : KR_V_OWN;
    case KR_PE_FDINFO_N:
        return !kr_place_own(w) ? KR_V_TEXT : kr_fd_hidden(w->n) ? KR_V_ABSENT : KR_V_PASS;
    case KR_PE_CWD:
    case KR_PE_ROOT:
    case KR_PE_NS_N:
        return kr_place_own(w) ? KR_V_OWN : KR_V_LINK;
    case KR_PE_EXE:
        return kr_place_own(w) ? KR_V_EXE : KR_V_LINK;
    case KR_PE_SYSCALL:
        return kr_place_own(w) ? KR_V_VIEW : KR_V_DENY;
    default: /* auxv, environ as well: the kernel gives them to root, because the monitor is not dumpable */
        return kr_place_own(w) ? KR_V_VIEW : KR_V_TEXT;
    }
}

enum kr_verdict kr_inspect(struct kr_task *t, int fd, struct statx *sx, struct kr_proc_name *what) {
    if (kr_stat_fd(fd, sx) < 0)
        return KR_V_DENY;
    if (KR_IS_DIR(sx->stx_mode) || !kr_on_proc(fd, sx))
        return KR_V_PASS;
    return kr_judge(t, fd, sx, what);
}
