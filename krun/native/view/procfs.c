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
#include "found.h"
#include "mapfiles.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define STRICT (RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT)
#define BOUND (STRICT | RESOLVE_NO_XDEV) /* only the kernel itself walks with these */

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
            ret = kr_open_intr(w.at, w.rest, &create);
            if (ret == -EEXIST && !(flags & O_EXCL))
                ret = -EAGAIN; /* another process has made it meanwhile: look again */
        } else if (ret < 0) {
            ;
        } else if (flags & O_CREAT && flags & O_EXCL) {
            ret = -EEXIST;
        } else if (flags & __O_TMPFILE) {
            struct open_how tmp = *how;
            tmp.resolve = 0;
            ret = kr_open_intr(w.at, ".", &tmp);
        } else if (flags & O_DIRECTORY && (kr_stat_fd(w.at, &sx) < 0 || !KR_IS_DIR(sx.stx_mode))) {
            ret = -ENOTDIR;
        } else {
            if (flags & O_CREAT && !kr_protected_lets(t, &w)) {
                kr_walk_end(&w);
                ret = -EACCES;
                continue;
            }
            w.owned = 0;
            ret = flags & O_PATH ? kr_found_hand_out(w.at, flags) : kr_open_found(t, w.at, flags);
            continue;
        }
        kr_walk_end(&w);
        ret = kr_found_lowest(ret, flags);
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
    return kr_found_hand_out(at, flags);
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
                       ? kr_found_other_text(t, &what, -1, flags) /* asked for by number */
                       : -EACCES;
        return asked->resolve & BOUND ? -EACCES : open_walk(t, dirfd, path, asked);
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
        fd = kr_found_other_text(t, &what, (int)slot, flags);
    /* A view only for entries that the kernel gives to root because the monitor is not dumpable. For an entry
     * that all may read, a security module (a landlock domain) has refused. */
    else if (v == KR_V_VIEW && !(sx.stx_mode & 0004))
        fd = kr_found_view(t, &what, (int)slot, flags);
    else if (v == KR_V_PASS)
        fd = kr_owned_open(t, (int)slot, &sx, flags);
    kr_slot_free((int)slot);
    return slot == at ? kr_found_lowest(fd, flags) : fd;
}

/* ---- openat2 ---- */

/* Opens a path with magic links, if the payload's own flags allow them. */
static long magic(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    return asked->resolve & RESOLVE_NO_XDEV ? -EXDEV : open_walk(t, dirfd, path, asked);
}

/* O_CREAT with flags that bind the walk, where the kernel has found another user's file. */
static long open_bound(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct kr_walk w = {.buf = kr_alloc_any(2 * KR_PATH_ROOM)};
    if (!w.buf)
        return -ENOMEM;
    long r = kr_walk_bound(t, &w, dirfd, path, asked->resolve);
    if (r == -ENOENT) /* it is gone: kr_open looks again */
        r = -EAGAIN;
    if (r == 0 && kr_protected_lets(t, &w)) {
        w.owned = 0;
        r = kr_open_found(t, w.at, asked->flags);
    } else if (r == 0) {
        r = -EACCES;
    }
    kr_walk_end(&w);
    kr_free(w.buf, 2 * KR_PATH_ROOM);
    return r;
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
        at = kr_open_intr(dirfd, path, &create);
        if (at != -EEXIST)
            return at;
        return asked->resolve & BOUND ? -EAGAIN : open_walk(t, dirfd, path, asked);
    }
    if (at == -EACCES)
        return refused(t, dirfd, path, asked);
    if (at == -ELOOP && !(asked->resolve & STRICT))
        return magic(t, dirfd, path, asked);
    struct statx sx;
    if (at >= 0 && flags & O_CREAT && kr_protected_asked((int)at, &sx)) {
        kr_fd_shut(at); /* of these only a walk knows the directory of the file */
        return asked->resolve & BOUND ? open_bound(t, dirfd, path, asked) : open_walk(t, dirfd, path, asked);
    }
    return at < 0 ? at : kr_open_found(t, at, flags);
}

static long open_any(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    struct open_how how = *asked;
    u64 flags = how.flags;
    int direct =
        (flags & (O_PATH | O_DIRECTORY | __O_TMPFILE)) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (!direct && kr_files_shared(t))
        return open_shared(t, dirfd, path, asked);
    how.resolve |= RESOLVE_NO_MAGICLINKS;
    long fd = kr_open_intr(dirfd, path, &how);
    if (fd == -EACCES)
        return refused(t, dirfd, path, asked);
    if (fd == -ELOOP && !(asked->resolve & STRICT))
        return magic(t, dirfd, path, asked);
    if (fd < 0)
        return fd;
    if (direct)
        return flags & O_PATH ? kr_hidden_number(t, fd, path) : fd;
    return kr_found_opened(t, fd, flags);
}

static long open_one(struct kr_task *t, int dirfd, const char *path, const struct open_how *asked) {
    return kr_map_in(path) ? kr_found_lowest(kr_map_open(t, dirfd, path, asked, open_any), asked->flags)
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
        asked->resolve & BOUND)
        fd = open_dangling(t, dirfd, path, asked);
    /* A link of the payload's to a name of map_files. EPERM: only CAP_CHECKPOINT_RESTORE follows these. */
    if ((fd == -EPERM || (fd == -ELOOP && asked->resolve & STRICT)) &&
        kr_walk_to_map(t, dirfd, path, asked->resolve))
        return -ENOENT;
    size_t n = strlen(path);
    int makes = asked->flags & O_CREAT && n && path[n - 1] == '/';
    if ((fd == -ENOTDIR || fd == -EEXIST || (makes && fd == -ENOENT)) && kr_hidden_on_way(t, dirfd, path))
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
