/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk of walk.h. No state; mm->lock while the list of tasks is walked.
 */
#include "walk.h"
#include "ask.h"
#include "mapfiles.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define MAX_LINKS 40 /* MAXSYMLINKS */

static void walk_to(struct kr_walk *w, long fd) {
    kr_walk_end(w);
    w->at = (int)fd;
    w->owned = 1;
}

void kr_walk_end(struct kr_walk *w) {
    if (w->owned)
        kr_fd_shut(w->at);
    w->owned = 0;
}

static long walk_root(struct kr_walk *w) {
    long fd = kr_open_plain(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    walk_to(w, fd);
    return 0;
}

/* Puts the target of a link (n bytes) in front of the rest of the path. 0 or -errno. */
static long walk_splice(struct kr_walk *w, const char *target, size_t n) {
    size_t rest = strlen(w->rest);
    if (n == 0)
        return -ENOENT;
    if (n + 1 + rest + 1 > KR_PATH_ROOM)
        return -ENAMETOOLONG;
    memmove(w->buf + n + 1, w->rest, rest + 1);
    memcpy(w->buf, target, n);
    w->buf[n] = rest ? '/' : 0;
    w->rest = w->buf;
    return 0;
}

/* ---- Magic links ---- */

/* Whether tid is a thread of the payload. The monitor has short-lived threads of its own (private.c): their
 * working directory is the monitor's procfs, and their descriptors are the monitor's. */
static int is_payload_thread(struct kr_task *t, u64 tid) {
    kr_lock(&t->mm->lock);
    struct kr_task *o = t->mm->tasks;
    while (o && (o->proc != t->proc || __atomic_load_n(&o->tid, __ATOMIC_ACQUIRE) != tid))
        o = o->next;
    kr_unlock(&t->mm->lock);
    return o != NULL;
}

/* The object of a link of the calling process, opened below the monitor's own procfs. pn has thread numbers
 * of the payload's pid namespace. If the payload has made that namespace itself, the monitor's procfs has
 * other numbers, and the link of the calling thread is used. */
static long own_link(struct kr_task *t, const struct kr_proc_name *pn) {
    char name[48], rel[64], path[64];
    u64 me = (u64)kr_sys0(__NR_getpid), tid = pn->tid ? pn->tid : pn->pid == me ? 0 : pn->pid;
    if (!(pn->numbers & KR_NUMBERS_MINE)) { /* the number is pn->self; those of threads are not known */
        tid = 0;
        if (pn->tid)
            return -ENOENT;
    }
    if (tid && !is_payload_thread(t, tid))
        return -ENOENT;
    if (pn->entry == KR_PE_FD_N)
        kr_snprintf(name, sizeof name, "fd/%lu", pn->n);
    else if (pn->entry == KR_PE_NS_N)
        kr_snprintf(name, sizeof name, "ns/%s", kr_proc_ns_name(pn->n));
    else
        kr_snprintf(name, sizeof name, "%s", kr_proc_entry_name(pn->entry));
    if (pn->entry == KR_PE_FD_N || tid == (u64)kr_sys0(__NR_gettid) || (tid && !kr_same_numbers(t->proc)))
        kr_snprintf(rel, sizeof rel, "thread-self/%s", name);
    else if (tid)
        kr_snprintf(rel, sizeof rel, "self/task/%lu/%s", tid, name);
    else
        kr_snprintf(rel, sizeof rel, "self/%s", name);
    int dir = kr_proc_handle(path, sizeof path, rel);
    return kr_open_plain(dir, path, O_PATH, 0);
}

/* The object behind the magic link `link`, opened O_PATH, or -errno. */
static long follow_magic(struct kr_task *t, int link, enum kr_verdict v, const struct kr_proc_name *pn) {
    char text[1];
    u32 mode;
    long fd, n;
    switch (v) {
    case KR_V_ABSENT:
        return -ENOENT;
    case KR_V_EXE: {
        char path[64];
        int dir = kr_proc_self_fd(path, sizeof path, t->proc->exe_fd);
        return kr_open_plain(dir, path, O_PATH, 0);
    }
    case KR_V_OWN:
        return own_link(t, pn);
    case KR_V_LINK:
        fd = kr_ask_link(t, pn, &mode);
        if (fd != -ESRCH)
            return fd;
        /* The process is not a monitor of this container: the kernel's errno (it may have ended), else
         * EACCES. */
        n = kr_sys4(__NR_readlinkat, link, "", text, sizeof text);
        return n < 0 ? n : -EACCES;
    default:
        return -EACCES;
    }
}

/* Whether the link `fd` is a magic link of a procfs; then *v and *pn are its verdict. Other links of a procfs
 * (self, mounts, net) have a text as their target, and the walk judges each component of that text. */
static int is_magic(struct kr_task *t, int fd, const struct statx *sx, enum kr_verdict *v,
                    struct kr_proc_name *pn) {
    if (!kr_on_proc(fd, sx))
        return 0;
    *v = kr_judge(t, fd, sx, pn);
    return *v != KR_V_PASS;
}

/* ---- fd/N of other processes, which the kernel refuses ---- */

int kr_walk_fds(struct kr_task *t, int dirfd, const char *name, struct kr_proc_name *pn) {
    struct statx sx;
    u64 n;
    if (!kr_proc_number(name, &n) || kr_stat_fd(dirfd, &sx) < 0 || !kr_maybe_proc(&sx))
        return 0;
    long at = kr_open_plain(dirfd, ".", O_PATH, 0), dir = at == -EACCES ? dirfd : at;
    char *path = kr_alloc(KR_PATH_ROOM);
    int is = path && dir >= 0 && kr_stat_fd((int)dir, &sx) == 0 && kr_on_proc((int)dir, &sx) &&
             kr_place_name(t, (int)dir, &sx, path, pn) == 0 &&
             (pn->entry == KR_PE_FD || pn->entry == KR_PE_FDINFO);
    kr_free(path, KR_PATH_ROOM);
    kr_fd_shut(at);
    if (is) {
        pn->entry = pn->entry == KR_PE_FD ? KR_PE_FD_N : KR_PE_FDINFO_N;
        pn->n = n;
    }
    return is;
}

int kr_walk_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn) {
    const char *base = strrchr(path, '/');
    size_t n = base ? (size_t)(base - path) : 0;
    u64 v;
    if (!kr_proc_number(base ? base + 1 : path, &v) || n + 2 > KR_PATH_ROOM)
        return 0;
    if (!base)
        return kr_walk_fds(t, dirfd, path, pn) && !kr_place_own(pn);
    char *dir = kr_alloc(KR_PATH_ROOM);
    if (!dir)
        return 0;
    memcpy(dir, path, n + 1);
    dir[n + 1] = 0;
    long fd = kr_open_plain(dirfd, dir, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS);
    int is = fd >= 0 && kr_walk_fds(t, (int)fd, base + 1, pn) && !kr_place_own(pn);
    kr_fd_shut(fd);
    kr_free(dir, KR_PATH_ROOM);
    return is;
}

/* ---- The walk ---- */

/* The kernel refuses `name` in w->at. If it is fd/N of another process, that process is asked. The object, or
 * -errno. */
static long refused_fd(struct kr_task *t, const struct kr_walk *w, const char *name) {
    struct kr_proc_name pn;
    u32 mode;
    if (!kr_walk_fds(t, w->at, name, &pn) || pn.entry != KR_PE_FD_N || kr_place_own(&pn))
        return -EACCES;
    long to = kr_ask_link(t, &pn, &mode);
    return to == -ESRCH ? -EACCES : to;
}

/* Goes from the link fd, found in w->at, to its target. after: the path behind the link. slash: only a slash
 * follows the link. Closes fd. 0 or -errno. */
static long step_link(struct kr_task *t, struct kr_walk *w, long fd, const struct statx *sx, char *after,
                      int slash) {
    struct kr_proc_name pn;
    enum kr_verdict v;
    char *target = w->buf + KR_PATH_ROOM;
    w->rest = after;
    if (slash) { /* "." keeps the demand for a directory */
        w->dot = 1;
        w->rest = w->buf + KR_PATH_ROOM - 2;
        w->rest[0] = '.';
        w->rest[1] = 0;
    }
    if (is_magic(t, (int)fd, sx, &v, &pn)) {
        long to = follow_magic(t, (int)fd, v, &pn);
        kr_fd_shut(fd);
        if (to >= 0)
            walk_to(w, to);
        w->dir_mode = w->dir_uid = 0;
        return to < 0 ? to : 0;
    }
    long len = kr_sys4(__NR_readlinkat, fd, "", target, KR_PATH_ROOM - 1);
    kr_fd_shut(fd);
    return len < 0 ? len : walk_splice(w, target, (size_t)len);
}

/* Whether the kernel would follow `link`, found as `name` in dir. trailing: the link is in the last place, where the
 * kernel protects links in sticky directories of all. 0; -EACCES; -ELOOP: the mount has nosymfollow; -EAGAIN: another
 * process has taken it away, or put something else there; another -errno: the kernel has not been asked. */
static long may_follow(int dir, const char *name, int link, int trailing) {
    struct statfs sf;
    if (trailing) { /* may_follow_link() comes before the answer to RESOLVE_NO_SYMLINKS */
        long fd = kr_open_plain(dir, name, O_PATH, RESOLVE_NO_SYMLINKS);
        kr_fd_shut(fd);
        if (fd != -ELOOP) /* another errno says nothing of the rule: no number may be free for the question */
            return fd >= 0 || fd == -ENOENT ? -EAGAIN : fd;
    }
    return kr_sys2(__NR_fstatfs, link, &sf) == 0 && sf.f_flags & ST_NOSYMFOLLOW ? -ELOOP : 0;
}

void kr_walk_note(struct kr_walk *w, int dir) {
    struct statx sx;
    w->dir_mode = w->dir_uid = 0;
    if (kr_sys5(__NR_statx, (s64)dir, "", AT_EMPTY_PATH, STATX_MODE | STATX_UID, &sx) == 0) {
        w->dir_mode = sx.stx_mode;
        w->dir_uid = sx.stx_uid;
    }
}

/* Walks one component. 0, 1 (end of the path), or -errno. */
static long step(struct kr_task *t, struct kr_walk *w, int follow, int *links) {
    char name[256];
    struct statx sx;
    size_t n = kr_comp_len(w->rest);
    if (n >= sizeof name)
        return -ENAMETOOLONG;
    memcpy(name, w->rest, n);
    name[n] = 0;
    char *after = (char *)kr_comp_next(w->rest, n);
    int slash = w->rest[n] == '/', last = !*after;
    if (kr_map_name(name) && kr_map_files(t, w->at)) {
        w->map = 1;
        return -ENOENT;
    }
    long fd = kr_open_plain(w->at, name, O_PATH | O_NOFOLLOW, 0), r;
    if (w->real && fd != -ENOTDIR &&
        (r = kr_sys4(__NR_faccessat2, (s64)w->at, "", X_OK, AT_EMPTY_PATH)) < 0) {
        kr_fd_shut(fd);
        return r;
    }
    if (fd == -EACCES && last && !slash && follow) {
        fd = refused_fd(t, w, name);
        if (fd >= 0) {
            walk_to(w, fd);
            return 1;
        }
    }
    if (fd < 0) {
        w->missing = fd == -ENOENT && last && !slash;
        return fd;
    }
    r = kr_stat_fd((int)fd, &sx);
    if (r < 0) {
        kr_fd_shut(fd);
        return r;
    }
    if (KR_IS_LINK(sx.stx_mode) && (!last || slash || follow)) {
        int trailing = last || (w->dot && strcmp(after, ".") == 0);
        r = ++*links <= MAX_LINKS ? may_follow(w->at, name, (int)fd, trailing) : -ELOOP;
        if (r == 0)
            return step_link(t, w, fd, &sx, after, slash && last);
        kr_fd_shut(fd);
        return r;
    }
    if (last)
        kr_walk_note(w, w->at);
    walk_to(w, fd);
    w->rest = after;
    return last && slash && !KR_IS_DIR(sx.stx_mode) ? -ENOTDIR : 0;
}

long kr_walk(struct kr_task *t, struct kr_walk *w, int dirfd, const char *path, int follow) {
    size_t n = strlen(path);
    int links = 0;
    long r = 0;
    w->at = dirfd;
    w->owned = w->missing = w->map = 0;
    if (n >= KR_PATH_ROOM)
        return -ENAMETOOLONG;
    if (n == 0)
        return -ENOENT;
    memcpy(w->buf, path, n + 1);
    w->rest = w->buf;
    while (r == 0) {
        if (*w->rest == '/') {
            r = w->rest == w->buf ? walk_root(w) : 0;
            while (*w->rest == '/')
                w->rest++;
        }
        if (r < 0 || !*w->rest)
            break;
        r = step(t, w, follow, &links);
    }
    if (r < 0)
        return r;
    if (!w->owned) {
        long fd = kr_open_plain(w->at, ".", O_PATH, 0);
        if (fd < 0)
            return fd;
        walk_to(w, fd);
    }
    return 0;
}

/* Puts target, which the link in the last place of path has (it begins at `last`), there. 0 or -errno. */
static long replace_last(char *path, size_t last, const char *target, size_t n) {
    size_t keep = *target == '/' ? 0 : last;
    if (!n || keep + n + 1 > KR_PATH_ROOM)
        return n ? -ENAMETOOLONG : -ENOENT;
    memcpy(path + keep, target, n);
    path[keep + n] = 0;
    return 0;
}

/* may_follow() for the last component of path, which begins at `last`. */
static long follows(int dirfd, char *path, size_t last, int link, u64 resolve) {
    char was = path[last];
    path[last] = 0;
    long dir = last ? kr_open_plain(dirfd, path, O_PATH | O_DIRECTORY, resolve) : dirfd;
    path[last] = was;
    if (last && dir < 0)
        return dir;
    long r = may_follow((int)dir, path + last, link, 1);
    if (last)
        kr_fd_shut(dir);
    return r;
}

long kr_walk_dangling(int dirfd, char *path, char *target, u64 resolve) {
    struct statx sx;
    long r;
    resolve |= RESOLVE_NO_MAGICLINKS;
    long fd = kr_open_plain(dirfd, path, O_PATH | O_NOFOLLOW, resolve);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    long n = kr_stat_fd((int)fd, &sx) == 0 && KR_IS_LINK(sx.stx_mode)
                 ? kr_sys4(__NR_readlinkat, fd, "", target, KR_PATH_ROOM - 1)
                 : 0;
    if (n > 0 && kr_on_proc((int)fd, &sx))
        n = -EAGAIN;
    char *base = strrchr(path, '/');
    size_t last = base ? (size_t)(base + 1 - path) : 0;
    if (n > 0 && (r = follows(dirfd, path, last, (int)fd, resolve)) < 0) /* after the text */
        n = r;
    kr_fd_shut(fd);
    if (n <= 0)
        return n;
    fd = kr_open_plain(dirfd, path, O_PATH, resolve);
    kr_fd_shut(fd);
    if (fd != -ENOENT)
        return fd < 0 ? fd : 0;
    return replace_last(path, last, target, (size_t)n);
}

/* Whether an absolute target leads to another mount than that of the link sx. */
static int crosses(const struct statx *sx) {
    struct statx root;
    return kr_sys5(__NR_statx, AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_MNT_ID | KR_STATX_MNT_ID_UNIQUE,
                   &root) < 0 ||
           root.stx_mnt_id != sx->stx_mnt_id;
}

/* Goes on from `name`, the last component of the path in w->buf, which begins at `last`, in dir. 0: the path has the target of a
 * link now; 1: the object is found; or -errno. */
static long step_bound(struct kr_task *t, struct kr_walk *w, long dir, size_t last, u64 resolve) {
    char *name = w->buf + last, *target = w->buf + KR_PATH_ROOM;
    struct kr_proc_name pn;
    enum kr_verdict v;
    struct statx sx;
    long fd = *name ? kr_open_plain((int)dir, name, O_PATH | O_NOFOLLOW,
                                    (resolve & ~(u64)RESOLVE_IN_ROOT) | RESOLVE_BENEATH)
                    : -EISDIR;
    long r = fd < 0 ? fd : kr_stat_fd((int)fd, &sx);
    if (r == 0 && !KR_IS_LINK(sx.stx_mode)) {
        kr_walk_note(w, (int)dir);
        walk_to(w, fd);
        return 1;
    }
    if (r == 0)
        r = resolve & RESOLVE_NO_SYMLINKS || is_magic(t, (int)fd, &sx, &v, &pn)
                ? -ELOOP
                : may_follow((int)dir, name, (int)fd, 1);
    if (r == 0)
        r = kr_sys4(__NR_readlinkat, fd, "", target, KR_PATH_ROOM - 1);
    if (r >= 0)
        r = *target == '/' && resolve & RESOLVE_NO_XDEV && crosses(&sx)
                ? -EXDEV
                : replace_last(w->buf, last, target, (size_t)r);
    kr_fd_shut(fd);
    return r;
}

long kr_walk_bound(struct kr_task *t, struct kr_walk *w, int dirfd, const char *path, u64 resolve) {
    size_t n = strlen(path);
    long r = n < KR_PATH_ROOM ? 0 : -ENAMETOOLONG;
    w->owned = 0;
    if (r == 0)
        memcpy(w->buf, path, n + 1);
    for (int links = 0; r == 0 && links <= MAX_LINKS; links++) {
        char *base = strrchr(w->buf, '/');
        size_t last = base ? (size_t)(base + 1 - w->buf) : 0;
        char was = w->buf[last];
        w->buf[last] = 0;
        long dir = last ? kr_open_plain(dirfd, w->buf, O_PATH | O_DIRECTORY, resolve | RESOLVE_NO_MAGICLINKS)
                        : dirfd;
        w->buf[last] = was;
        r = last && dir < 0 ? dir : step_bound(t, w, dir, last, resolve | RESOLVE_NO_MAGICLINKS);
        if (last)
            kr_fd_shut(dir);
    }
    return r < 0 ? r : r ? 0 : -ELOOP;
}

int kr_walk_to_map(struct kr_task *t, int dirfd, const char *path, u64 resolve) {
    struct kr_walk w = {.buf = resolve & RESOLVE_NO_SYMLINKS ? NULL : kr_alloc_any(2 * KR_PATH_ROOM)};
    if (!w.buf)
        return !(resolve & RESOLVE_NO_SYMLINKS);
    long r = kr_walk(t, &w, dirfd, path, 1);
    kr_walk_end(&w);
    kr_free(w.buf, 2 * KR_PATH_ROOM);
    return w.map || kr_map_unknown(r);
}

long kr_walk_real(struct kr_task *t, int dirfd, const char *path, int follow) {
    struct kr_walk w = {.real = 1, .buf = kr_alloc_any(2 * KR_PATH_ROOM)};
    if (!w.buf)
        return -ENOMEM;
    long r = kr_fd_hidden((u32)dirfd) && path[0] != '/' ? -EBADF : kr_walk(t, &w, dirfd, path, follow);
    kr_walk_end(&w);
    kr_free(w.buf, 2 * KR_PATH_ROOM);
    return r;
}
