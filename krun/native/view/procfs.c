/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files for the payload (procfs.h explains the rules).
 *
 * State: none. Locks: none of its own. Callers: the handlers of sys/
 * that take a path, on the calling task's thread.
 *
 * Host calls of one open:
 *   one thread       openat2, statx
 *   several threads  openat2 with O_PATH, dup3, close, statx, openat2 through /proc, dup3
 *   either           openat2 only, for directories, O_PATH, exclusive creation and O_TMPFILE: none of these
 *                    gives a file of procfs with content
 */
#include "ask.h"
#include "mapfiles.h"
#include "walk.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define STRICT (RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT)

#define open_intr(dirfd, path, how)                                                                          \
    kr_call_intr(__NR_openat2, (u64)(s64)(dirfd), (u64)(path), (u64)(how), sizeof(struct open_how), 0, 0)

/* ---- Texts ---- */

/* The view of entry w of this process: a descriptor or -errno. fd: as for kr_procview_own_text. */
static long view(struct kr_task *t, const struct kr_proc_name *w, int fd) {
    char rel[64];
    if (w->entry == KR_PE_STATUS || w->entry == KR_PE_STAT)
        return kr_procview_own_text(t, w, fd);
    kr_snprintf(rel, sizeof rel, "thread-self/%s",
                kr_proc_entry_name(w->entry)); /* all threads share the memory */
    return kr_procview(t, w->entry, rel);
}

/* Moves fd to the lowest free number, as open(2) promises: other descriptors of this call may have stood
 * below fd. */
static long lowest(long fd, u64 flags) {
    if (fd < 0)
        return fd;
    long low = kr_fd_dup((u64)fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    if (low < 0)
        return fd;
    if (low > fd) {
        kr_fd_shut(low);
        return fd;
    }
    kr_fd_shut(fd);
    return low;
}

/* The payload's number for a descriptor that was made close-on-exec. */
static long hand_out(long fd, u64 flags) {
    if (fd >= 0 && !(flags & O_CLOEXEC))
        kr_fd_call((u64)fd, __NR_fcntl, F_SETFD, 0);
    return lowest(fd, flags);
}

/* Opens the monitor's text in place of the entry w, with the payload's flags. fd: the entry, as below. */
static long open_view(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    return (flags & O_ACCMODE) != O_RDONLY ? -EACCES : hand_out(view(t, w, fd), flags);
}

/* Opens the text w of another process with the payload's flags. -ESRCH: the process is not a monitor of this
 * container, and the payload may read the kernel's text. -EACCES if the payload may not. fd: the entry, where no other thread
 * can exchange it. */
static long other_text(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    long r;
    if ((flags & O_ACCMODE) != O_RDONLY) /* the payload writes no entry of another process */
        return -EACCES;
    r = w->entry == KR_PE_STATUS || w->entry == KR_PE_STAT ? kr_procview_other(t, w, fd) : kr_ask_text(t, w);
    /* The calling process itself has an unknown number where the payload looks from a pid namespace of its own, or into
     * a procfs of another one. What the kernel shows of it in these entries is the payload's (kr_publish_mm). fdinfo
     * shows the monitor's descriptors; auxv tells where a monitor lies that has just been started. */
    int harmless = w->entry == KR_PE_STATUS || w->entry == KR_PE_ENVIRON;
    return r == -ESRCH && !harmless ? -EACCES : hand_out(r, flags);
}

/* As other_text, where the kernel refuses its own text: -EACCES in place of -ESRCH. */
static long other_text_only(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    long r = other_text(t, w, fd, flags);
    return r == -ESRCH ? -EACCES : r;
}

/* ---- Opening the object that was found ---- */

/* Whether fd belongs to another user than the caller, and where. */
static int is_others(int fd, struct statx *sx) {
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_UID, sx) == 0 &&
           !KR_IS_DIR(sx->stx_mode) && sx->stx_uid != (u32)kr_sys1(__NR_setfsuid, -1);
}

static u64 sysctl_of(struct kr_task *t, const char *rel) {
    size_t size, len;
    char *text = kr_proc_slurp(t, rel, &size, &len);
    u64 v = text ? kr_strtou(text, NULL) : 0;
    kr_free(text, text ? size : 0);
    return v;
}

/* Whether fs.protected_regular and fs.protected_fifos let O_CREAT open the file that the walk w has found
 * (may_create_in_sticky() in fs/namei.c). The kernel is asked without O_CREAT, so it does not look. */
static int may_create(struct kr_task *t, const struct kr_walk *w) {
    struct statx sx;
    if (!(w->dir_mode & S_ISVTX) || !is_others(w->at, &sx) || sx.stx_uid == w->dir_uid)
        return 1;
    u32 type = sx.stx_mode & S_IFMT;
    u64 level = type == S_IFREG   ? sysctl_of(t, "sys/fs/protected_regular")
                : type == S_IFIFO ? sysctl_of(t, "sys/fs/protected_fifos")
                                  : 1;
    return !level || !(w->dir_mode & 0002 || (w->dir_mode & 0020 && level >= 2));
}

/* The directory in which the kernel's path of w->at has its last component, opened O_PATH, or -EACCES; path[KR_PATH_ROOM]. */
static long directory_of(const struct kr_walk *w, char *path) {
    char link[64];
    struct statx is, there;
    int dir = kr_proc_self_fd(link, sizeof link, w->at);
    long n = kr_sys4(__NR_readlinkat, dir, link, path, KR_PATH_ROOM - 1), fd, same;
    path[n > 0 ? n : 0] = 0;
    char *base = strrchr(path, '/');
    if (path[0] != '/' || n >= (long)KR_PATH_ROOM - 1)
        return -EACCES;
    *base++ = 0;
    fd = kr_open_plain(AT_FDCWD, *path ? path : "/", O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    same = kr_open_plain((int)fd, base, O_PATH | O_NOFOLLOW, 0);
    int is_it = same >= 0 && kr_stat_fd((int)same, &there) == 0 && kr_stat_fd(w->at, &is) == 0 &&
                is.stx_ino == there.stx_ino && is.stx_dev_major == there.stx_dev_major &&
                is.stx_dev_minor == there.stx_dev_minor;
    kr_fd_shut(same);
    if (!is_it)
        kr_fd_shut(fd);
    return is_it ? fd : -EACCES;
}

/* may_create for the object `at`, which the kernel has found with flags that bind its walk (openat2(2)): the kernel's path of it
 * tells the directory. A file without such a path (moved or removed meanwhile, outside of the root) is refused. */
static int may_create_at(struct kr_task *t, int at) {
    struct kr_walk w = {.at = at};
    char *path = kr_alloc_any(KR_PATH_ROOM);
    long dir = path ? directory_of(&w, path) : -ENOMEM;
    kr_free(path, path ? KR_PATH_ROOM : 0);
    if (dir < 0)
        return 0;
    kr_walk_note(&w, (int)dir);
    kr_fd_shut(dir);
    return may_create(t, &w);
}

long kr_may_write(int fd) {
    struct statx sx;
    if (kr_stat_fd(fd, &sx) < 0 || (!KR_IS_DIR(sx.stx_mode) && kr_on_proc(fd, &sx)))
        return -EACCES;
    return kr_write_refused(fd, &sx, O_WRONLY);
}

/* Opens the object of descriptor fd again. fd: O_PATH, at a number where no other thread can exchange it. May
 * block (FIFO). */
static long reopen(int fd, u64 flags) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, fd);
    struct open_how how = {.flags = flags & ~(u64)(O_CREAT | O_EXCL | O_NOFOLLOW)};
    return open_intr(dir, link, &how);
}

/* open_passed: too many opens of FIFOs wait. No errno has this value. */
#define CROWDED (-KR_ERESTART - 1)
#define LATER_NS 10000000

/* Waits a little without a slot, and has the call made again: an interrupted one (process/resume.h). */
static long later(struct kr_task *t) {
    const s64 pause[2] = {0, LATER_NS};
    kr_call_intr(__NR_nanosleep, (u64)pause, 0, 0, 0, 0, 0);
    t->resumed = 1;
    t->waited = 0;
    t->resume_rip = kr_regs(t)->rip - 2;
    return -KR_ERESTART;
}

/* Opens the object of fd with the verdict KR_V_PASS again. mode: its stx_mode. */
static long open_passed(int fd, u32 mode, u64 flags) {
    if (KR_IS_LINK(mode))
        return -ELOOP;
    if (flags & O_CREAT && KR_IS_DIR(mode))
        return -EISDIR;
    int waits = KR_IS_FIFO(mode) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR;
    return waits && !kr_slot_linger(fd) ? CROWDED : reopen(fd, flags);
}

long kr_open_found(struct kr_task *t, long at, u64 flags) {
    struct statx sx = {0};
    struct kr_proc_name what;
    long fd, slot = kr_slot_put(t, (int)at);
    if (slot < 0)
        return slot;
    enum kr_verdict v = kr_inspect(t, (int)slot, &sx, &what);
    if ((v == KR_V_VIEW || v == KR_V_TEXT) && !kr_rules_let(t, (int)slot, &what, sx.stx_mode))
        v = KR_V_DENY;
    switch (v) {
    case KR_V_PASS:
        fd = kr_write_refused((int)slot, &sx, flags);
        if (fd == 0)
            fd = open_passed((int)slot, sx.stx_mode, flags);
        break;
    case KR_V_ABSENT:
        fd = -ENOENT;
        break;
    case KR_V_VIEW:
        fd = open_view(t, &what, (int)slot, flags);
        break;
    case KR_V_TEXT:
        fd = other_text(t, &what, (int)slot, flags);
        if (fd == -ESRCH)
            fd = reopen((int)slot, flags);
        break;
    default:
        fd = KR_IS_LINK(sx.stx_mode) ? -ELOOP : -EACCES;
        break;
    }
    kr_slot_free((int)slot);
    if (fd == CROWDED)
        return later(t);
    return slot == at ? lowest(fd, flags) : fd; /* `at` had the lowest number */
}

/* The result of an open that has made fd already, while no other thread shares the table. */
static long finish_open(struct kr_task *t, long fd, u64 flags) {
    struct statx sx;
    struct kr_proc_name what;
    enum kr_verdict v = kr_inspect(t, (int)fd, &sx, &what);
    int why = v == KR_V_PASS ? kr_write_refused((int)fd, &sx, flags) : 0;
    if (v == KR_V_PASS && !why)
        return fd;
    if (v == KR_V_TEXT || v == KR_V_VIEW) { /* fd is closed after this: lowest() moves the text down */
        long r = v == KR_V_VIEW ? open_view(t, &what, (int)fd, flags) : other_text(t, &what, (int)fd, flags);
        if (r == -ESRCH)
            return fd;
        kr_fd_shut(fd);
        return lowest(r, flags);
    }
    kr_fd_shut(fd);
    return v == KR_V_PASS ? why : v == KR_V_ABSENT ? -ENOENT : -EACCES;
}

/* Opens a path with magic links; or a path with a dangling link that O_CREAT must fill while other threads
 * share the table. */
static long open_walk(struct kr_task *t, int dirfd, const char *path, const struct open_how *how) {
    u64 flags = how->flags;
    int follow = !(flags & O_NOFOLLOW) && !((flags & O_CREAT) && (flags & O_EXCL));
    long ret = -EAGAIN;
    char *buf = kr_alloc_any(2 * KR_PATH_ROOM);
    if (!buf)
        return -ENOMEM;
    for (int tries = 0; ret == -EAGAIN && tries < 16; tries++) {
        struct kr_walk w = {.buf = buf};
        struct statx sx;
        ret = kr_walk(t, &w, dirfd, path, follow);
        if (ret == -ENOENT && w.missing && flags & O_CREAT) {
            struct open_how create = *how;
            create.flags |= O_EXCL;
            create.resolve = RESOLVE_NO_MAGICLINKS;
            ret = open_intr(w.at, w.rest, &create);
            if (ret == -EEXIST && !(flags & O_EXCL))
                ret = -EAGAIN; /* another process has made it meanwhile: look again */
        } else if (ret < 0) {
            ;
        } else if (flags & O_CREAT && flags & O_EXCL) {
            ret = -EEXIST;
        } else if (flags & __O_TMPFILE) {
            struct open_how tmp = *how;
            tmp.resolve = 0;
            ret = open_intr(w.at, ".", &tmp);
        } else if (flags & O_DIRECTORY && (kr_stat_fd(w.at, &sx) < 0 || !KR_IS_DIR(sx.stx_mode))) {
            ret = -ENOTDIR;
        } else {
            if (flags & O_CREAT && !may_create(t, &w)) {
                kr_walk_end(&w);
                ret = -EACCES;
                continue;
            }
            w.owned = 0;
            ret = flags & O_PATH ? hand_out(w.at, flags) : kr_open_found(t, w.at, flags);
            continue;
        }
        kr_walk_end(&w);
        ret = lowest(ret, flags);
    }
    kr_free(buf, 2 * KR_PATH_ROOM);
    return ret;
}

/* ---- Where the kernel refuses ---- */

/* Opens fd or fdinfo of another process. Both belong to root, because the monitor is not dumpable, so the
 * kernel refuses other users. If the process allows the listing, the payload gets the O_PATH descriptor `at`,
 * and sys/dirent.c makes the listing. */
static long other_directory(struct kr_task *t, long at, u64 flags, const struct statx *sx) {
    struct kr_proc_name pn;
    u32 *fds, n;
    size_t size;
    char *path = kr_alloc(KR_PATH_ROOM);
    int is = path && kr_on_proc((int)at, sx) && kr_place_name(t, (int)at, sx, path, &pn) == 0 &&
             (pn.entry == KR_PE_FD || pn.entry == KR_PE_FDINFO) && !kr_place_own(&pn) &&
             kr_rules_let(t, -1, &pn, sx->stx_mode);
    kr_free(path, KR_PATH_ROOM);
    long r = is ? kr_ask_fds(t, kr_place_asked(&pn), pn.entry, &fds, &n, &size) : -EACCES;
    if (r < 0) {
        kr_fd_shut(at);
        return r == -ESRCH ? -EACCES : r;
    }
    kr_free(fds, size);
    return hand_out(at, flags);
}

/* The kernel has answered EACCES. It does so for entries that only a tracer of the process may read, and no
 * monitor may trace another. */
static long refused(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct statx sx;
    struct kr_proc_name what;
    u64 resolve = asked->resolve | RESOLVE_NO_MAGICLINKS, flags = asked->flags;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) || flags & __O_TMPFILE || !*path)
        return -EACCES;
    long at = kr_open_plain(dirfd, path, O_PATH | (flags & O_NOFOLLOW), resolve);
    if (at < 0) {
        if (kr_walk_other_fd(t, dirfd, path, &what) && what.entry == KR_PE_FDINFO_N)
            return kr_rules_let(t, -1, &what, 0)
                       ? other_text_only(t, &what, -1, flags) /* asked for by number */
                       : -EACCES;
        return asked->resolve & (STRICT | RESOLVE_NO_XDEV) ? -EACCES : open_walk(t, dirfd, path, asked);
    }
    if (!(flags & O_PATH) && (flags & O_ACCMODE) == O_RDONLY && kr_stat_fd((int)at, &sx) == 0 &&
        KR_IS_DIR(sx.stx_mode))
        return other_directory(t, at, flags, &sx);
    long slot = kr_slot_put(t, (int)at), fd = -EACCES;
    if (slot < 0)
        return slot;
    enum kr_verdict v = flags & O_PATH ? KR_V_DENY : kr_inspect(t, (int)slot, &sx, &what);
    if ((v == KR_V_TEXT || v == KR_V_VIEW) && !kr_rules_let(t, (int)slot, &what, sx.stx_mode))
        v = KR_V_DENY;
    if (v == KR_V_TEXT)
        fd = other_text_only(t, &what, (int)slot, flags);
    /* A view only for entries that the kernel gives to root because the monitor is not dumpable. For an entry
     * that all may read, a security module (a landlock domain) has refused. */
    else if (v == KR_V_VIEW && !(sx.stx_mode & 0004))
        fd = open_view(t, &what, (int)slot, flags);
    kr_slot_free((int)slot);
    return slot == at ? lowest(fd, flags) : fd;
}

/* ---- openat2 ---- */

/* Opens a path with magic links, if the payload's own flags allow them. */
static long magic(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    return asked->resolve & RESOLVE_NO_XDEV ? -EXDEV : open_walk(t, dirfd, path, asked);
}

/* Opens while other threads share the table: the object of the path is found first, and judged at a number
 * where no thread can exchange it. */
static long open_shared(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    u64 flags = asked->flags;
    struct open_how create = *asked;
    create.resolve |= RESOLVE_NO_MAGICLINKS;
    long at = kr_open_plain(dirfd, path, O_PATH | (flags & O_NOFOLLOW), create.resolve);
    if (at == -ENOENT && flags & O_CREAT) {
        /* O_EXCL, because a new file is not an entry of a procfs. EEXIST for a dangling link in the last
         * place, and for a file that another process has made meanwhile: the walk handles both. */
        create.flags |= O_EXCL;
        at = open_intr(dirfd, path, &create);
        if (at != -EEXIST)
            return at;
        return asked->resolve & STRICT ? -EAGAIN : open_walk(t, dirfd, path, asked);
    }
    if (at == -EACCES)
        return refused(t, dirfd, path, asked);
    if (at == -ELOOP && !(asked->resolve & STRICT))
        return magic(t, dirfd, path, asked);
    struct statx sx;
    if (at >= 0 && flags & O_CREAT && is_others((int)at, &sx)) {
        int bound = (asked->resolve & (STRICT | RESOLVE_NO_XDEV)) != 0;
        if (bound && may_create_at(t, (int)at))
            return kr_open_found(t, at, flags);
        kr_fd_shut(at);
        return bound ? -EACCES : open_walk(t, dirfd, path, asked); /* it knows the directory of the file */
    }
    return at < 0 ? at : kr_open_found(t, at, flags);
}

/* fd, opened with O_PATH. -ENOENT if it is fd/N or fdinfo/N of a hidden number; then fd is closed. */
static long seen_number(struct kr_task *t, long fd, const char *path) {
    struct statx sx;
    struct kr_proc_name what;
    const char *base = strrchr(path, '/');
    if (kr_proc_number(base ? base + 1 : path, &what.n) &&
        kr_inspect(t, (int)fd, &sx, &what) == KR_V_ABSENT) {
        kr_fd_shut(fd);
        return -ENOENT;
    }
    return fd;
}

/* Whether a component of path is fd/N or fdinfo/N of this process and N is hidden. */
static int leads_to_hidden(struct kr_task *t, int dirfd, const char *path) {
    size_t n = strlen(path) + 1;
    char *part = n <= KR_PATH_ROOM ? kr_alloc(KR_PATH_ROOM) : NULL;
    int is = 0;
    if (!part)
        return 0;
    memcpy(part, path, n);
    for (char *at = part; *at && !is;) {
        struct statx sx;
        struct kr_proc_name what;
        while (*at == '/')
            at++;
        char *end = at + kr_comp_len(at), was = *end;
        *end = 0;
        long fd = kr_proc_number(at, &what.n)
                      ? kr_open_plain(dirfd, part, O_PATH | O_NOFOLLOW, RESOLVE_NO_MAGICLINKS)
                      : -ENOENT;
        is = fd >= 0 && kr_inspect(t, (int)fd, &sx, &what) == KR_V_ABSENT;
        kr_fd_shut(fd);
        *end = was;
        at = end;
    }
    kr_free(part, KR_PATH_ROOM);
    return is;
}

static long open_any(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct open_how how = *asked;
    u64 flags = how.flags;
    int direct =
        (flags & (O_PATH | O_DIRECTORY | __O_TMPFILE)) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (!direct && kr_files_shared(t))
        return open_shared(t, dirfd, path, asked);
    how.resolve |= RESOLVE_NO_MAGICLINKS;
    long fd = open_intr(dirfd, path, &how);
    if (fd == -EACCES)
        return refused(t, dirfd, path, asked);
    if (fd == -ELOOP && !(asked->resolve & STRICT))
        return magic(t, dirfd, path, asked);
    if (fd < 0)
        return fd;
    if (direct)
        return flags & O_PATH ? seen_number(t, fd, path) : fd;
    return finish_open(t, fd, flags);
}

static long open_one(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    return kr_map_in(path) ? lowest(kr_map_open(t, dirfd, path, asked, open_any), asked->flags)
                           : open_any(t, dirfd, path, asked);
}

/* O_CREAT through a dangling link with flags that bind the walk, while other threads share the table (open_shared). The kernel
 * does not follow the link with O_EXCL, so each link's target takes the link's place in the path. */
static long open_dangling(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    size_t n = strlen(path) + 1;
    char *now = n <= KR_PATH_ROOM ? kr_alloc_any(2 * KR_PATH_ROOM) : NULL;
    long fd = now ? -EAGAIN : -ENOMEM;
    if (now)
        memcpy(now, path, n);
    for (int links = 0; fd == -EAGAIN && links < 40; links++) { /* MAXSYMLINKS */
        fd = kr_walk_dangling(dirfd, now, now + KR_PATH_ROOM, asked->resolve);
        if (fd == 0)
            fd = open_one(t, dirfd, now, asked);
    }
    kr_free(now, now ? 2 * KR_PATH_ROOM : 0);
    return fd;
}

/* The kernel says ENOTDIR for a path through a hidden number, and EEXIST for O_EXCL at one. For a number that is
 * not open it says ENOENT, or EISDIR where O_CREAT meets a slash at the end (open_last_lookups()). */
long kr_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    if (kr_fd_hidden((u32)dirfd) && path[0] != '/')
        return -EBADF;
    long fd = open_one(t, dirfd, path, asked);
    if (fd == -EAGAIN && (asked->flags & (O_CREAT | O_EXCL | O_NOFOLLOW)) == O_CREAT &&
        asked->resolve & STRICT)
        fd = open_dangling(t, dirfd, path, asked);
    /* A link of the payload's to a name of map_files. EPERM: only CAP_CHECKPOINT_RESTORE follows these. */
    if ((fd == -EPERM || (fd == -ELOOP && asked->resolve & STRICT)) &&
        kr_walk_to_map(t, dirfd, path, asked->resolve))
        return -ENOENT;
    size_t n = strlen(path);
    int makes = asked->flags & O_CREAT && n && path[n - 1] == '/';
    if ((fd == -ENOTDIR || fd == -EEXIST || (makes && fd == -ENOENT)) && leads_to_hidden(t, dirfd, path))
        return makes ? -EISDIR : -ENOENT;
    return fd;
}

long kr_open_path(struct kr_task *t, int dirfd, const char *path, u32 flags) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & (O_NOFOLLOW | O_DIRECTORY))};
    return kr_open(t, dirfd, path, &how);
}

long kr_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn, u32 *mode) {
    if (!kr_walk_other_fd(t, dirfd, path, pn) || pn->entry != KR_PE_FD_N)
        return -ESRCH;
    return kr_ask_link(t, pn, mode);
}
