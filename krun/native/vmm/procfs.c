/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files for the payload and telling which entries of /proc need care (procfs.h says how).
 *
 * State: none. Locks: none of its own. Called by the handlers of sys/open.c and others that take a path, on
 * the calling task's thread.
 *
 * Costs: one thread: openat2 + statx. Several: O_PATH openat2, statx, openat2 through /proc, dup3, close.
 * Directories, O_PATH, exclusive creation and O_TMPFILE need neither (none of them can yield a file of procfs
 * that has content).
 */
#include "procfs.h"
#include "ask.h"
#include "board.h"
#include "fdtab.h"
#include "mm.h"
#include <linux/fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <asm/statfs.h>

#define PATH_ROOM 4096u
#define MAX_LINKS 40

#define open_intr(dirfd, path, how)                                                                          \
    kr_call_intr(__NR_openat2, (u64)(s64)(dirfd), (u64)(path), (u64)(how), sizeof(struct open_how), 0, 0)

static long open_plain(int dirfd, const char *path, u64 flags, u64 resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
    return kr_sys4(__NR_openat2, (s64)dirfd, path, &how, sizeof how);
}

static void close_fd(long fd) {
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
}

int kr_proc_handle(char *buf, size_t size, const char *rel) {
    if (kr_boot.fd_proc >= 0) {
        kr_snprintf(buf, size, "%s", rel);
        return kr_boot.fd_proc;
    }
    kr_snprintf(buf, size, "/proc/%s", rel);
    return AT_FDCWD;
}

/* thread-self, not self: the first thread of the process may be gone. */
int kr_proc_self_fd(char *buf, size_t size, int fd) {
    char rel[48];
    kr_snprintf(rel, sizeof rel, "thread-self/fd/%d", fd);
    return kr_proc_handle(buf, size, rel);
}

/* ---- Names (pure) ---- */

static const struct {
    const char *name;
    enum kr_proc_entry entry;
} entries[] = {
    {"exe", KR_PE_EXE},
    {"maps", KR_PE_MAPS},
    {"smaps", KR_PE_SMAPS},
    {"smaps_rollup", KR_PE_SMAPS_ROLLUP},
    {"numa_maps", KR_PE_NUMA_MAPS},
    {"status", KR_PE_STATUS},
    {"stat", KR_PE_STAT},
    {"auxv", KR_PE_AUXV},
    {"environ", KR_PE_ENVIRON},
    {"syscall", KR_PE_SYSCALL},
    {"fd", KR_PE_FD},
    {"fdinfo", KR_PE_FDINFO},
    {"map_files", KR_PE_MAP_FILES},
    {"cwd", KR_PE_CWD},
    {"root", KR_PE_ROOT},
    {"mem", KR_PE_REFUSED},
    {"pagemap", KR_PE_REFUSED},
    {"clear_refs", KR_PE_REFUSED},
    {"stack", KR_PE_REFUSED},
};

static const char *const namespaces[] = {
    "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"};

const char *kr_proc_ns_name(u64 n) { return n < KR_COUNT(namespaces) ? namespaces[n] : NULL; }

static int ns_of(const char *s, size_t n) {
    for (size_t i = 0; i < KR_COUNT(namespaces); i++)
        if (strlen(namespaces[i]) == n && memcmp(namespaces[i], s, n) == 0)
            return (int)i;
    return -1;
}

/* Whether [s, s+n) is a decimal number; its value in *v. */
static int number(const char *s, size_t n, u64 *v) {
    *v = 0;
    if (n == 0 || n > 10)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        *v = *v * 10 + (u64)(s[i] - '0');
    }
    return 1;
}

static size_t comp_len(const char *s) {
    size_t n = 0;
    while (s[n] && s[n] != '/')
        n++;
    return n;
}

static const char *next_comp(const char *s, size_t n) {
    s += n;
    while (*s == '/')
        s++;
    return s;
}

static enum kr_proc_entry entry_of(const char *s, size_t n) {
    for (size_t i = 0; i < KR_COUNT(entries); i++)
        if (strlen(entries[i].name) == n && memcmp(entries[i].name, s, n) == 0)
            return entries[i].entry;
    return KR_PE_OTHER;
}

void kr_proc_parse(const char *rel, struct kr_proc_name *out) {
    memset(out, 0, sizeof *out);
    size_t n = comp_len(rel);
    if (!number(rel, n, &out->pid))
        return;
    rel = next_comp(rel, n);
    n = comp_len(rel);
    if (n == 4 && memcmp(rel, "task", 4) == 0) {
        rel = next_comp(rel, n);
        n = comp_len(rel);
        if (!*rel)
            out->entry = KR_PE_TASK;
        if (!number(rel, n, &out->tid))
            return;
        rel = next_comp(rel, n);
        n = comp_len(rel);
    }
    enum kr_proc_entry e = entry_of(rel, n);
    int in_ns = n == 2 && memcmp(rel, "ns", 2) == 0;
    const char *rest = next_comp(rel, n);
    if (!*rest) {
        out->entry = e;
        return;
    }
    n = comp_len(rest);
    if (*next_comp(rest, n))
        return; /* nothing lies so deep */
    if (in_ns && ns_of(rest, n) >= 0) {
        out->entry = KR_PE_NS_N;
        out->n = (u64)ns_of(rest, n);
    } else if (e == KR_PE_MAP_FILES)
        out->entry = KR_PE_MAP_FILES_N;
    else if ((e == KR_PE_FD || e == KR_PE_FDINFO) && number(rest, n, &out->n))
        out->entry = e == KR_PE_FD ? KR_PE_FD_N : KR_PE_FDINFO_N;
}

int kr_proc_suspect(const char *name) {
    u64 v;
    size_t n = comp_len(name);
    return entry_of(name, n) != KR_PE_OTHER || number(name, n, &v) || ns_of(name, n) >= 0 ||
           (n == 4 && memcmp(name, "task", 4) == 0);
}

/* ---- Where a descriptor lies in a procfs ---- */

static long stat_fd(int fd, struct statx *sx) {
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                   STATX_TYPE | STATX_MODE | STATX_INO | STATX_MNT_ID, sx);
}

/* Cheap and never wrong when it says no: procfs has an anonymous device number and blocks of 1 KiB (asked for
 * once, in case a later kernel changes it). */
static int maybe_proc(const struct statx *sx) {
    static u32 block;
    if (sx->stx_dev_major != 0)
        return 0;
    u32 b = __atomic_load_n(&block, __ATOMIC_RELAXED);
    if (!b) {
        struct statx px;
        b = kr_boot.fd_proc >= 0 && stat_fd(kr_boot.fd_proc, &px) == 0 ? px.stx_blksize : 1024;
        __atomic_store_n(&block, b, __ATOMIC_RELAXED);
    }
    return sx->stx_blksize == b;
}

static int on_proc(int fd, const struct statx *sx) {
    struct statfs sf;
    return maybe_proc(sx) && kr_sys2(__NR_fstatfs, fd, &sf) == 0 && sf.f_type == PROC_SUPER_MAGIC;
}

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

/* Reads a whole file of the monitor's procfs into a buffer of the heap. *size is the buffer's size for
 * kr_free. */
char *kr_proc_slurp(const char *rel, size_t *size, size_t *len) {
    char path[64];
    int dir = kr_proc_handle(path, sizeof path, rel);
    int none;
    /* The kernel's text shows the monitor: no thread of the payload may copy the descriptor meanwhile. */
    kr_fd_hide_begin();
    long fd = open_plain(dir, path, O_RDONLY, 0);
    if (fd < 0) {
        kr_fd_hide_end(-EBADF, 0, &none);
        return NULL;
    }
    size_t room = 16384, have = 0;
    char *buf = kr_alloc(room);
    while (buf) {
        if (room - have < 4097) {
            char *more = kr_realloc(buf, room, room * 2);
            if (!more) {
                kr_free(buf, room);
                buf = NULL;
                break;
            }
            buf = more;
            room *= 2;
        }
        long n = kr_sys3(__NR_read, fd, buf + have, room - have - 1);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    close_fd(fd);
    kr_fd_hide_end(-EBADF, 0, &none);
    if (buf)
        buf[have] = 0;
    *size = room;
    *len = have;
    return buf;
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

/* Strips what d_path adds to the name of an entry that is gone. */
static void strip_deleted(char *s, long n) {
    static const char tail[] = " (deleted)";
    long k = (long)sizeof tail - 1;
    if (n > k && memcmp(s + n - k, tail, (size_t)k) == 0)
        s[n - k] = 0;
}

/* 0, or -EACCES for a name that gives power over a process but whose place is not the known one. */
static int understood(const char *base, const struct kr_proc_name *w) {
    enum kr_proc_entry e = entry_of(base, comp_len(base));
    return w->entry == KR_PE_OTHER && e != KR_PE_OTHER && e != KR_PE_STATUS && e != KR_PE_STAT &&
                   e != KR_PE_FD && e != KR_PE_FDINFO && e != KR_PE_CWD && e != KR_PE_ROOT
               ? -EACCES
               : 0;
}

/*
 * The name of fd (on a procfs, not a mount root unless it says so) below the root of that procfs.
 * path[PATH_ROOM] is the kernel's path of fd and becomes the result. 0, or -EACCES when the place cannot be
 * found out.
 *
 * The descriptor pins its mount, so the mount's id is not given to another one meanwhile. A mount that is
 * moved between the steps makes the name wrong, but never into a harmless one: the last component stays, and
 * a name that is suspect and not of the form PID/entry is refused.
 */
static int rel_name(int fd, const struct statx *sx, char *path, struct kr_proc_name *out) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, fd);
    long n = kr_sys4(__NR_readlinkat, dir, link, path, PATH_ROOM - 1);
    if (n <= 0 || n >= (long)PATH_ROOM - 1)
        return -EACCES;
    path[n] = 0;
    strip_deleted(path, n);
    int is_root = (sx->stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    memset(out, 0, sizeof *out);
    if (!is_root && !kr_proc_suspect(base))
        return 0; /* the name of a dentry that is no mount root is what its path ends in */
    /* The usual place: a whole procfs on /proc. */
    if (strncmp(path, "/proc/", 6) == 0 && !is_root) {
        struct statx root;
        if (kr_sys5(__NR_statx, AT_FDCWD, "/proc", AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
                    STATX_INO | STATX_MNT_ID, &root) == 0 &&
            root.stx_mnt_id == sx->stx_mnt_id && (root.stx_mask & STATX_MNT_ID) &&
            (root.stx_attributes & STATX_ATTR_MOUNT_ROOT) && root.stx_ino == 1) {
            kr_proc_parse(path + 6, out);
            return understood(base, out);
        }
    }
    size_t size, len;
    char *text = kr_proc_slurp("thread-self/mountinfo", &size, &len);
    if (!text)
        return -EACCES;
    char *root, *point;
    int ret = -EACCES;
    if (find_mount(text, sx->stx_mnt_id, &root, &point) == 0) {
        size_t pl = strcmp(point, "/") == 0 ? 0 : strlen(point),
               rl = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(path, point, pl) == 0 && (path[pl] == '/' || !path[pl]) &&
            rl + strlen(path + pl) < PATH_ROOM) {
            memmove(path + rl, path + pl, strlen(path + pl) + 1);
            memcpy(path, root, rl);
            kr_proc_parse(path[0] == '/' ? path + 1 : path, out);
            base = strrchr(path, '/');
            ret = understood(base ? base + 1 : path, out);
        }
    }
    kr_free(text, size);
    return ret;
}

/* Whether a directory number of /proc stands for the calling process or one of its threads. */
static int is_own(const struct kr_proc_name *w) {
    long pid = kr_sys0(__NR_getpid);
    return (u64)pid == w->pid || (w->pid && w->pid < 0x7fffffff && kr_sys3(__NR_tgkill, pid, w->pid, 0) == 0);
}

/* ---- Judging ---- */

enum verdict {
    V_PASS,
    V_DENY,   /* -EACCES */
    V_ABSENT, /* -ENOENT */
    V_EXE,    /* the payload's program instead */
    V_VIEW,   /* our text instead */
    V_LINK,   /* a magic link of another process, which knows where it leads */
    V_TEXT,   /* a text of another process, of its own making */
};

static enum verdict judge(int fd, const struct statx *sx, struct kr_proc_name *w) {
    char *path = kr_alloc(PATH_ROOM);
    if (!path)
        return V_DENY;
    int r = rel_name(fd, sx, path, w);
    kr_free(path, PATH_ROOM);
    if (r < 0)
        return V_DENY;
    switch (w->entry) {
    case KR_PE_OTHER:
    case KR_PE_FD:
    case KR_PE_FDINFO:
    case KR_PE_MAP_FILES:
    case KR_PE_TASK:
        return V_PASS;
    case KR_PE_REFUSED:
    case KR_PE_MAP_FILES_N:
        return V_DENY; /* of whatever process: another one is a monitor, too */
    case KR_PE_FD_N:
        return !is_own(w) ? V_LINK : kr_fd_hidden(w->n) ? V_ABSENT : V_PASS;
    case KR_PE_FDINFO_N:
        return !is_own(w) ? V_TEXT : kr_fd_hidden(w->n) ? V_ABSENT : V_PASS;
    case KR_PE_CWD:
    case KR_PE_ROOT:
    case KR_PE_NS_N:
        return is_own(w) ? V_PASS : V_LINK;
    case KR_PE_EXE:
        return is_own(w) ? V_EXE : V_LINK;
    case KR_PE_SYSCALL:
        return is_own(w) ? V_VIEW : V_DENY;
    default: /* auxv and environ, too: the kernel's belong to root, for the monitor is not dumpable */
        return is_own(w) ? V_VIEW : V_TEXT;
    }
}

/* The rest of a name of this process for the monitor's own handle. */
static long view(struct kr_task *t, const struct kr_proc_name *w) {
    const char *name = "";
    for (size_t i = 0; i < KR_COUNT(entries); i++)
        if (entries[i].entry == w->entry) {
            name = entries[i].name;
            break;
        }
    char rel[64];
    u64 tid = w->tid ? w->tid : 0;
    if (tid)
        kr_snprintf(rel, sizeof rel, "self/task/%lu/%s", tid, name);
    else if (w->entry == KR_PE_STATUS || w->entry == KR_PE_STAT)
        kr_snprintf(rel, sizeof rel, "%lu/%s", w->pid, name);
    else
        kr_snprintf(rel, sizeof rel, "thread-self/%s", name); /* memory is the same for all threads */
    return kr_procview(t, w->entry, rel);
}

/* Moves a descriptor that other calls made meanwhile pushed up to the lowest free number, as open(2)
 * promises. */
static long lowest(long fd, u64 flags) {
    if (fd < 0)
        return fd;
    long low = kr_sys3(__NR_fcntl, fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    if (low < 0)
        return fd;
    if (low > fd) {
        kr_sys1(__NR_close, low);
        return fd;
    }
    kr_sys1(__NR_close, fd);
    return low;
}

/* A text of another process. -EACCES where it is not of this container's: its monitor is not asked, and what
 * the kernel has to say of it only in part fit to be seen. `fd` is what the kernel gave, or -1; closed. */
static long other_view(struct kr_task *t, const struct kr_proc_name *w, long fd) {
    char rel[64];
    long r;
    if (w->entry == KR_PE_STATUS || w->entry == KR_PE_STAT) {
        const char *name = w->entry == KR_PE_STATUS ? "status" : "stat";
        if (w->tid)
            kr_snprintf(rel, sizeof rel, "%lu/task/%lu/%s", w->pid, w->tid, name);
        else
            kr_snprintf(rel, sizeof rel, "%lu/%s", w->pid, name);
        r = kr_procview_other(t, w->entry, (u32)w->pid, rel);
    } else {
        r = kr_ask_text(t, w);
    }
    int harmless = w->entry == KR_PE_STATUS || w->entry == KR_PE_STAT || w->entry == KR_PE_AUXV ||
                   w->entry == KR_PE_ENVIRON || w->entry == KR_PE_FDINFO_N;
    if (r == -ESRCH && harmless && fd >= 0)
        return fd;
    close_fd(fd);
    return r == -ESRCH ? -EACCES : r;
}

/* Our text for an open of `flags`. Takes the lowest number. */
static long open_view(struct kr_task *t, const struct kr_proc_name *w, u64 flags) {
    if ((flags & O_ACCMODE) != O_RDONLY)
        return -EACCES;
    long fd = view(t, w);
    if (fd >= 0 && !(flags & O_CLOEXEC))
        kr_sys3(__NR_fcntl, fd, F_SETFD, 0);
    return lowest(fd, flags);
}

static long open_other(struct kr_task *t, const struct kr_proc_name *w, long fd, u64 flags) {
    if ((flags & O_ACCMODE) != O_RDONLY) { /* nothing of another process is written to */
        close_fd(fd);
        return -EACCES;
    }
    fd = other_view(t, w, fd);
    if (fd >= 0 && !(flags & O_CLOEXEC))
        kr_sys3(__NR_fcntl, fd, F_SETFD, 0);
    return lowest(fd, flags);
}

/* Opens again what descriptor fd (O_PATH) names. May block (FIFO). */
static long reopen(int fd, u64 flags) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, fd);
    struct open_how how = {.flags = flags & ~(u64)(O_CREAT | O_EXCL | O_NOFOLLOW)};
    return open_intr(dir, link, &how);
}

/* ---- Walking a path with magic links ---- */

struct walk {
    int at;      /* directory reached so far */
    int owned;   /* `at` is ours to close */
    char *rest;  /* what remains of the path; in buf */
    char *buf;   /* 2 * PATH_ROOM */
    int missing; /* -ENOENT of the last component: `at` is its directory, `rest` its name */
};

static void walk_to(struct walk *w, long fd) {
    if (w->owned)
        close_fd(w->at);
    w->at = (int)fd;
    w->owned = 1;
}

static long walk_root(struct walk *w) {
    long fd = open_plain(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    walk_to(w, fd);
    return 0;
}

/* Puts a link's target in front of the rest. */
static long walk_splice(struct walk *w, const char *target, size_t n) {
    size_t rest = strlen(w->rest);
    if (n == 0)
        return -ENOENT;
    if (n + 1 + rest + 1 > PATH_ROOM)
        return -ENAMETOOLONG;
    memmove(w->buf + n + 1, w->rest, rest + 1);
    memcpy(w->buf, target, n);
    w->buf[n] = rest ? '/' : 0;
    w->rest = w->buf;
    return 0;
}

/* Follows the magic link `name` in w->at, whose own descriptor is link_fd. The target, O_PATH. */
static long follow_magic(struct kr_task *t, struct walk *w, int link_fd, const struct statx *sx,
                         const char *name) {
    struct kr_proc_name pn;
    u32 mode;
    enum verdict v = judge(link_fd, sx, &pn);
    switch (v) {
    case V_ABSENT:
        return -ENOENT;
    case V_EXE:
        return reopen(t->proc->exe_fd, O_PATH | O_CLOEXEC);
    case V_LINK: {
        long fd = kr_ask_link(t, &pn, &mode);
        if (fd != -ESRCH)
            return fd;
        if (pn.entry == KR_PE_EXE)
            return -EACCES;
        break;
    }
    case V_PASS: {
        u64 n;
        if (pn.entry == KR_PE_OTHER && (number(name, strlen(name), &n) || strchr(name, '-')))
            return -EACCES; /* looks like a descriptor or a mapping, in a place that we do not know */
        break;
    }
    default:
        return -EACCES;
    }
    long fd = open_plain(w->at, name, O_PATH, 0);
    if (fd < 0 || v != V_LINK || pn.entry != KR_PE_FD_N)
        return fd;
    /* A descriptor of a process that is not asked. Which of them are its monitor's is not known here,
     * but what they are is: KVM's, an executable of a monitor, and a procfs that is mounted nowhere. */
    struct statx tx, self;
    int bad = stat_fd((int)fd, &tx) < 0;
    if (!bad && (tx.stx_mode & 0170000) == 0) {
        char link[64], text[32];
        int dir = kr_proc_self_fd(link, sizeof link, (int)fd);
        long n = kr_sys4(__NR_readlinkat, dir, link, text, sizeof text);
        bad = n < 15 || memcmp(text, "anon_inode:kvm-", 15) == 0;
    }
    if (!bad && (tx.stx_mode & 0170000) == 0020000) /* /dev/kvm */
        bad = tx.stx_rdev_major == 10 && tx.stx_rdev_minor == 232;
    if (!bad && kr_boot.fd_exe >= 0 && stat_fd(kr_boot.fd_exe, &self) == 0)
        bad = self.stx_ino == tx.stx_ino && self.stx_dev_major == tx.stx_dev_major &&
              self.stx_dev_minor == tx.stx_dev_minor;
    if (!bad && on_proc((int)fd, &tx) && (tx.stx_mode & 0170000) == 0040000) {
        char *path = kr_alloc(PATH_ROOM);
        struct statx at_root = tx;
        at_root.stx_attributes |= STATX_ATTR_MOUNT_ROOT; /* have its mount looked up in any case */
        bad = !path || rel_name((int)fd, &at_root, path, &pn) < 0;
        kr_free(path, PATH_ROOM);
    }
    if (bad) {
        close_fd(fd);
        return -EACCES;
    }
    return fd;
}

/* Whether dirfd is fd or fdinfo of another process, and name a number: then *pn is the entry. */
static int in_other_fds(int dirfd, const char *name, struct kr_proc_name *pn) {
    struct statx sx;
    u64 n;
    if (!number(name, strlen(name), &n))
        return 0;
    long at = open_plain(dirfd, ".", O_PATH, 0), dir = at == -EACCES ? dirfd : at;
    char *path = kr_alloc(PATH_ROOM);
    int is = path && dir >= 0 && stat_fd((int)dir, &sx) == 0 && on_proc((int)dir, &sx) &&
             rel_name((int)dir, &sx, path, pn) == 0 && (pn->entry == KR_PE_FD || pn->entry == KR_PE_FDINFO) &&
             !is_own(pn);
    kr_free(path, PATH_ROOM);
    close_fd(at);
    if (is) {
        pn->entry = pn->entry == KR_PE_FD ? KR_PE_FD_N : KR_PE_FDINFO_N;
        pn->n = n;
    }
    return is;
}

/* The same for a path: its last component, below what the rest of it leads to. */
static int is_other_fd(int dirfd, const char *path, struct kr_proc_name *pn) {
    const char *base = strrchr(path, '/');
    size_t n = base ? (size_t)(base - path) : 0;
    u64 v;
    if (!number(base ? base + 1 : path, strlen(base ? base + 1 : path), &v) || n + 2 > PATH_ROOM)
        return 0;
    if (!base)
        return in_other_fds(dirfd, path, pn);
    char *dir = kr_alloc(PATH_ROOM);
    if (!dir)
        return 0;
    memcpy(dir, path, n + 1);
    dir[n + 1] = 0;
    long fd = open_plain(dirfd, dir, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    int is = fd >= 0 && in_other_fds((int)fd, base + 1, pn);
    close_fd(fd);
    kr_free(dir, PATH_ROOM);
    return is;
}

long kr_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn, u32 *mode) {
    if (!is_other_fd(dirfd, path, pn) || pn->entry != KR_PE_FD_N)
        return -ESRCH;
    return kr_ask_link(t, pn, mode);
}

/* Opens path O_PATH, by hand. follow: also a link in the last place. 0 with the result in w->at (owned), or
 * -errno. */
static long walk_path(struct kr_task *t, struct walk *w, int dirfd, const char *path, int follow) {
    size_t n = strlen(path);
    if (n >= PATH_ROOM)
        return -ENAMETOOLONG;
    if (n == 0)
        return -ENOENT;
    memcpy(w->buf, path, n + 1);
    w->rest = w->buf;
    w->at = dirfd;
    w->owned = 0;
    int links = 0;
    char name[256];
    char *target = w->buf + PATH_ROOM;
    for (;;) {
        if (*w->rest == '/') {
            if (w->rest == w->buf) {
                long r = walk_root(w);
                if (r < 0)
                    return r;
            }
            while (*w->rest == '/')
                w->rest++;
        }
        if (!*w->rest)
            break;
        n = comp_len(w->rest);
        if (n >= sizeof name)
            return -ENAMETOOLONG;
        memcpy(name, w->rest, n);
        name[n] = 0;
        const char *after = next_comp(w->rest, n);
        int slash = w->rest[n] == '/', last = !*after;
        long fd = open_plain(w->at, name, O_PATH | O_NOFOLLOW, 0);
        if (fd == -EACCES && last && !slash && follow) { /* a descriptor of another process? */
            struct kr_proc_name pn;
            u32 mode;
            if (in_other_fds(w->at, name, &pn) && pn.entry == KR_PE_FD_N) {
                long to = kr_ask_link(t, &pn, &mode);
                if (to >= 0) {
                    walk_to(w, to);
                    return 0;
                }
                fd = to == -ESRCH ? -EACCES : to;
            }
        }
        if (fd < 0) {
            w->missing = fd == -ENOENT && last && !slash;
            return fd;
        }
        struct statx sx;
        long r = stat_fd((int)fd, &sx);
        if (r < 0) {
            close_fd(fd);
            return r;
        }
        if ((sx.stx_mode & 0170000) == 0120000 && (!last || slash || follow)) {
            if (++links > MAX_LINKS) {
                close_fd(fd);
                return -ELOOP;
            }
            long magic = -1;
            if (on_proc((int)fd, &sx)) {
                long to = open_plain(w->at, name, O_PATH, RESOLVE_NO_MAGICLINKS);
                magic = to == -ELOOP || to == -EACCES; /* of a process that may not be traced */
                close_fd(to);
            }
            w->rest = (char *)after;
            if (slash && last) { /* keep the demand for a directory */
                w->rest = w->buf + PATH_ROOM - 2;
                w->rest[0] = '.';
                w->rest[1] = 0;
            }
            if (magic > 0) {
                long to = follow_magic(t, w, (int)fd, &sx, name);
                close_fd(fd);
                if (to < 0)
                    return to;
                walk_to(w, to);
            } else {
                long len = kr_sys4(__NR_readlinkat, fd, "", target, PATH_ROOM - 1);
                close_fd(fd);
                if (len < 0)
                    return len;
                r = walk_splice(w, target, (size_t)len);
                if (r < 0)
                    return r;
                continue; /* an absolute target begins at buf */
            }
        } else {
            walk_to(w, fd);
            w->rest = (char *)after;
        }
        if (last && slash && (sx.stx_mode & 0170000) != 0120000 && (sx.stx_mode & 0170000) != 0040000)
            return -ENOTDIR;
    }
    if (!w->owned) {
        long fd = open_plain(w->at, ".", O_PATH, 0);
        if (fd < 0)
            return fd;
        walk_to(w, fd);
    }
    return 0;
}

/* ---- Opening ---- */

/* Decides about fd (opened O_PATH, or for real while nobody shares the table). *what is set for V_VIEW. */
static enum verdict inspect(int fd, struct statx *sx, struct kr_proc_name *what) {
    if (stat_fd(fd, sx) < 0)
        return V_DENY;
    if (!maybe_proc(sx) || (sx->stx_mode & 0170000) == 0040000 || !on_proc(fd, sx))
        return V_PASS;
    return judge(fd, sx, what);
}

/* The result of an open whose target is known as the O_PATH descriptor `at`, which is closed. */
static long finish(struct kr_task *t, long at, u64 flags) {
    struct statx sx;
    struct kr_proc_name what;
    u64 type;
    switch (inspect((int)at, &sx, &what)) {
    case V_PASS:
        type = sx.stx_mode & 0170000;
        if (type == 0120000) {
            close_fd(at);
            return -ELOOP;
        }
        if (flags & O_CREAT && type == 0040000) {
            close_fd(at);
            return -EISDIR;
        }
        long fd = reopen((int)at, flags);
        if (fd > at) { /* `at` had the lowest number: the result belongs there */
            long r = kr_sys3(__NR_dup3, fd, at, flags & O_CLOEXEC);
            if (r >= 0) {
                close_fd(fd);
                return r;
            }
        }
        close_fd(at);
        return fd;
    case V_ABSENT:
        close_fd(at);
        return -ENOENT;
    case V_VIEW:
        close_fd(at);
        return open_view(t, &what, flags);
    case V_TEXT: {
        long plain = reopen((int)at, flags);
        close_fd(at);
        return open_other(t, &what, plain, flags);
    }
    default:
        close_fd(at);
        return -EACCES;
    }
}

/* Paths with magic links, and dangling links that O_CREAT is to fill while others share the table. */
static long open_walk(struct kr_task *t, int dirfd, const char *path, const struct open_how *how) {
    u64 flags = how->flags;
    int follow = !(flags & O_NOFOLLOW) && !((flags & O_CREAT) && (flags & O_EXCL));
    long ret = -EAGAIN;
    char *buf = kr_alloc(2 * PATH_ROOM);
    if (!buf)
        return -ENOMEM;
    for (int tries = 0; ret == -EAGAIN && tries < 16; tries++) {
        struct walk w = {.buf = buf};
        ret = walk_path(t, &w, dirfd, path, follow);
        if (ret == -ENOENT && w.missing && flags & O_CREAT) {
            struct open_how create = *how;
            create.flags |= O_EXCL;
            create.resolve = RESOLVE_NO_MAGICLINKS;
            ret = open_intr(w.at, w.rest, &create);
            if (ret == -EEXIST && !(flags & O_EXCL))
                ret = -EAGAIN; /* made by another meanwhile: look again */
            if (w.owned)
                close_fd(w.at);
            ret = lowest(ret, flags);
            continue;
        }
        if (ret < 0) {
            if (w.owned)
                close_fd(w.at);
        } else if (flags & O_CREAT && flags & O_EXCL) {
            close_fd(w.at);
            ret = -EEXIST;
        } else if (flags & __O_TMPFILE) {
            struct open_how tmp = *how;
            tmp.resolve = 0;
            ret = open_intr(w.at, ".", &tmp);
            close_fd(w.at);
            ret = lowest(ret, flags);
        } else if (flags & O_PATH) {
            struct statx sx;
            ret = w.at;
            if (flags & O_DIRECTORY && (stat_fd(w.at, &sx) < 0 || (sx.stx_mode & 0170000) != 0040000)) {
                close_fd(w.at);
                ret = -ENOTDIR;
            } else if (!(flags & O_CLOEXEC)) {
                kr_sys3(__NR_fcntl, ret, F_SETFD, 0);
            }
            ret = lowest(ret, flags);
        } else {
            ret = lowest(finish(t, w.at, flags), flags);
        }
    }
    kr_free(buf, 2 * PATH_ROOM);
    return ret;
}

/* fd or fdinfo of another process, which the kernel lets nobody open but root (they belong to it, for the
 * monitor is not dumpable): `at`, opened O_PATH, stands for it where the process says that it may be listed,
 * and sys/open.c lists it. */
static long other_directory(struct kr_task *t, long at, u64 flags, const struct statx *sx) {
    struct kr_proc_name pn;
    u32 *fds, n;
    size_t size;
    char *path = kr_alloc(PATH_ROOM);
    int is = path && on_proc((int)at, sx) && rel_name((int)at, sx, path, &pn) == 0 &&
             (pn.entry == KR_PE_FD || pn.entry == KR_PE_FDINFO) && !is_own(&pn);
    kr_free(path, PATH_ROOM);
    long r = is ? kr_ask_fds(t, (u32)pn.pid, &fds, &n, &size) : -EACCES;
    if (r < 0) {
        close_fd(at);
        return r == -ESRCH ? -EACCES : r;
    }
    kr_free(fds, size);
    if (!(flags & O_CLOEXEC))
        kr_sys3(__NR_fcntl, at, F_SETFD, 0);
    return lowest(at, flags);
}

/* The kernel said EACCES. It does so for what only those may read who may trace a process, and no monitor may
 * trace another. */
static long refused(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct statx sx;
    struct kr_proc_name what;
    const u64 strict = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    u64 resolve = asked->resolve | RESOLVE_NO_MAGICLINKS, flags = asked->flags;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) || flags & __O_TMPFILE || !*path)
        return -EACCES;
    long at = open_plain(dirfd, path, O_PATH | (flags & O_NOFOLLOW), resolve);
    if (at < 0) {
        if (is_other_fd(dirfd, path, &what) && what.entry == KR_PE_FDINFO_N)
            return open_other(t, &what, -1, flags);
        return asked->resolve & (strict | RESOLVE_NO_XDEV) ? -EACCES : open_walk(t, dirfd, path, asked);
    }
    enum verdict v = flags & O_PATH ? V_DENY : inspect((int)at, &sx, &what);
    if (v == V_PASS && (sx.stx_mode & 0170000) == 0040000 && (flags & O_ACCMODE) == O_RDONLY)
        return other_directory(t, at, flags, &sx);
    close_fd(at);
    if (v == V_TEXT)
        return open_other(t, &what, -1, flags);
    /* Of our own only what the kernel gave to root, as the monitor is not dumpable: what all may read was
     * refused by a security module (a landlock domain). */
    return v == V_VIEW && !(sx.stx_mode & 0004) ? open_view(t, &what, flags) : -EACCES;
}

long kr_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct open_how how = *asked;
    u64 flags = how.flags;
    const u64 strict = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    if (kr_fd_hidden((u32)dirfd) && path[0] != '/')
        return -EBADF;
    how.resolve |= RESOLVE_NO_MAGICLINKS;
    long fd;

    int direct =
        (flags & (O_PATH | O_DIRECTORY | __O_TMPFILE)) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (direct || !kr_files_shared(t)) {
        fd = open_intr(dirfd, path, &how);
        if (fd == -EACCES)
            return refused(t, dirfd, path, asked);
        if (fd == -ELOOP && !(asked->resolve & strict))
            return asked->resolve & RESOLVE_NO_XDEV ? -EXDEV : open_walk(t, dirfd, path, asked);
        if (fd < 0 || direct)
            return fd;
        struct statx sx;
        struct kr_proc_name what;
        switch (inspect((int)fd, &sx, &what)) {
        case V_PASS:
            return fd;
        case V_ABSENT:
            close_fd(fd);
            return -ENOENT;
        case V_VIEW:
            close_fd(fd);
            return open_view(t, &what, flags);
        case V_TEXT:
            return open_other(t, &what, fd, flags);
        default:
            close_fd(fd);
            return -EACCES;
        }
    }

    /* Others share the table: inspect first. */
    struct open_how look = {.flags = O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW), .resolve = how.resolve};
    long at = kr_sys4(__NR_openat2, (s64)dirfd, path, &look, sizeof look);
    if (at == -ENOENT && flags & O_CREAT) {
        /* Exclusively: a new file is no procfs entry. A dangling link in the last place, and a file that
         * somebody made meanwhile, give EEXIST and are left to the walk. */
        how.flags |= O_EXCL;
        at = open_intr(dirfd, path, &how);
        if (at != -EEXIST)
            return at;
        return asked->resolve & strict ? -EAGAIN : open_walk(t, dirfd, path, asked);
    }
    if (at == -EACCES)
        return refused(t, dirfd, path, asked);
    if (at == -ELOOP && !(asked->resolve & strict))
        return asked->resolve & RESOLVE_NO_XDEV ? -EXDEV : open_walk(t, dirfd, path, asked);
    if (at < 0)
        return at;
    return finish(t, at, flags);
}

long kr_open_path(struct kr_task *t, int dirfd, const char *path, u32 flags) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & (O_NOFOLLOW | O_DIRECTORY))};
    return kr_open(t, dirfd, path, &how);
}

/* ---- Links and directories ---- */

/* The link of a descriptor that holds a view of ours: "/memfd:proc:maps (deleted)" is /proc/PID/maps to the
 * payload. */
static long view_link(char *buf, long n, size_t size) {
    static const char head[] = "/memfd:" KR_VIEW_LABEL, tail[] = " (deleted)";
    long h = sizeof head - 1, e = sizeof tail - 1;
    char text[128];
    if (n <= h + e || n - h - e >= 64 || memcmp(buf, head, (size_t)h) || memcmp(buf + n - e, tail, (size_t)e))
        return n;
    int len =
        kr_snprintf(text, sizeof text, "/proc/%d/%.*s", (int)kr_sys0(__NR_getpid), (int)(n - h - e), buf + h);
    n = KR_MIN(len, (long)size);
    memcpy(buf, text, (size_t)n);
    return n;
}

/* A link of another process, `n` being what the kernel said. */
static long other_link(struct kr_task *t, const struct kr_proc_name *w, long n, char *buf, size_t size) {
    char self[64];
    u32 mode;
    long fd = kr_ask_link(t, w, &mode);
    if (fd == -ESRCH)
        return w->entry == KR_PE_EXE ? -EACCES : n;
    if (fd < 0)
        return fd;
    int dir = kr_proc_self_fd(self, sizeof self, (int)fd);
    n = kr_sys4(__NR_readlinkat, dir, self, buf, size);
    close_fd(fd);
    return n;
}

long kr_readlink(struct kr_task *t, int dirfd, const char *path, char *buf, size_t size) {
    if (kr_fd_hidden((u32)dirfd) && path[0] != '/')
        return -EBADF;
    long n = kr_sys4(__NR_readlinkat, (s64)dirfd, path, buf, size);
    if (n < 0 && n != -EACCES)
        return n;
    /* Between this look and the call above the path may have changed: what leaks then is a text. */
    struct statx sx;
    u64 how = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | (*path ? 0 : AT_EMPTY_PATH);
    struct kr_proc_name pn;
    if (n == -EACCES && is_other_fd(dirfd, path, &pn) && pn.entry == KR_PE_FD_N)
        return other_link(t, &pn, n, buf, size);
    if (kr_sys5(__NR_statx, (s64)dirfd, path, how, STATX_TYPE | STATX_INO | STATX_MNT_ID, &sx) < 0 ||
        !maybe_proc(&sx))
        return n;
    int mine = *path != 0;
    long link = mine ? open_plain(dirfd, path, O_PATH | O_NOFOLLOW, 0) : dirfd;
    if (link < 0)
        return n;
    if (on_proc((int)link, &sx)) {
        switch (judge((int)link, &sx, &pn)) {
        case V_EXE: {
            char self[64];
            int dir = kr_proc_self_fd(self, sizeof self, t->proc->exe_fd);
            n = kr_sys4(__NR_readlinkat, dir, self, buf, size);
            break;
        }
        case V_ABSENT:
            n = -ENOENT;
            break;
        case V_DENY:
            n = -EACCES;
            break;
        case V_LINK:
            n = other_link(t, &pn, n, buf, size);
            break;
        default:
            break;
        }
    }
    if (mine)
        close_fd(link);
    return view_link(buf, n, size);
}

int kr_dir_kind(struct kr_task *t, int fd, u32 *pid) {
    struct kr_board_entry e;
    struct statx sx;
    if (stat_fd(fd, &sx) < 0 || !maybe_proc(&sx) || !on_proc(fd, &sx))
        return KR_DIR_PLAIN;
    struct kr_proc_name pn;
    char *path = kr_alloc(PATH_ROOM);
    if (!path)
        return KR_DIR_PLAIN;
    int kind = KR_DIR_PLAIN;
    if (rel_name(fd, &sx, path, &pn) >= 0) {
        if (pn.entry == KR_PE_MAP_FILES)
            kind = KR_DIR_EMPTY;
        else if (pn.entry == KR_PE_FD || pn.entry == KR_PE_FDINFO)
            kind = is_own(&pn)                             ? KR_DIR_FDS
                   : kr_ask_board(t, (u32)pn.pid, &e) == 0 ? KR_DIR_FDS_OTHER
                                                           : KR_DIR_PLAIN;
        else if (pn.entry == KR_PE_TASK)
            kind = KR_DIR_TASKS;
        *pid = is_own(&pn) ? 0 : (u32)pn.pid;
    }
    kr_free(path, PATH_ROOM);
    return kind;
}

#define PF_USER_WORKER 0x4000 /* made by the kernel in a process: field 9 of stat (Linux 6.4) */

int kr_is_kvm_thread(struct kr_task *t, u32 pid, u64 tid) {
    char rel[64];
    size_t size, len;
    int known = pid ? pid == tid : (long)tid == kr_sys0(__NR_getpid);
    kr_lock(&t->mm->lock);
    for (struct kr_task *o = pid ? NULL : t->mm->tasks; o && !known; o = o->next)
        known = o->tid == tid;
    kr_unlock(&t->mm->lock);
    if (known)
        return 0;
    if (pid)
        kr_snprintf(rel, sizeof rel, "%u/task/%lu/stat", pid, tid);
    else
        kr_snprintf(rel, sizeof rel, "self/task/%lu/stat", tid);
    char *text = kr_proc_slurp(rel, &size, &len), *p = text ? strrchr(text, ')') : NULL;
    int is = 0;
    if (p && (p = strchr(text, '(')) && strncmp(p, "(kvm-", 5) == 0 && (p = strrchr(text, ')'))) {
        for (int field = 2; p && field < 9; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        is = p && kr_strtou(p, NULL) & PF_USER_WORKER;
    }
    kr_free(text, text ? size : 0);
    return is;
}

int kr_has_kvm_thread(struct kr_task *t) {
    static int known; /* 1: no, 2: yes; the same whoever finds it */
    char path[64], dents[4096];
    u64 tids[128];
    u32 n = 0;
    int seen = __atomic_load_n(&known, __ATOMIC_RELAXED), none;
    if (seen)
        return seen - 1;
    int dir = kr_proc_handle(path, sizeof path, "self/task");
    kr_fd_hide_begin();
    long fd = open_plain(dir, path, O_RDONLY | O_DIRECTORY, 0), got;
    while (fd >= 0 && (got = kr_sys3(__NR_getdents64, fd, dents, sizeof dents)) > 0)
        for (long at = 0; at < got;) {
            u16 len;
            const char *name = dents + at + 19, *end;
            memcpy(&len, dents + at + 16, 2);
            at += len;
            u64 tid = kr_strtou(name, &end);
            if (end != name && !*end && n < KR_COUNT(tids))
                tids[n++] = tid;
        }
    close_fd(fd);
    kr_fd_hide_end(-EBADF, 0, &none);
    int is = 0;
    for (u32 i = 0; i < n && !is; i++)
        is = kr_is_kvm_thread(t, 0, tids[i]);
    if (is || n < KR_COUNT(tids))
        __atomic_store_n(&known, is + 1, __ATOMIC_RELAXED);
    return is;
}
