/* SPDX-License-Identifier: Apache-2.0
 *
 * readlink(2) of links of /proc, and the kinds of directories of /proc for getdents64(2). No state, no locks.
 */
#include "ask.h"
#include "../process/board.h"
#include "walk.h"
#include <linux/fcntl.h>

/* The link of a descriptor with a view: the payload sees "/memfd:proc:maps (deleted)" as /proc/PID/maps. n:
 * length of the link in buf. The new length. */
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

/* readlink(2) of /proc/self/fd/FD. Length or -errno. */
static long link_of_fd(int fd, char *buf, size_t size) {
    char self[64];
    int dir = kr_proc_self_fd(self, sizeof self, fd);
    return kr_sys4(__NR_readlinkat, dir, self, buf, size);
}

/* The text of link w of another process. n: the kernel's answer. Of a process that is not a monitor of this
 * container, the payload sees only the namespaces' identities. Length or -errno. */
static long other_link(struct kr_task *t, const struct kr_proc_name *w, long n, char *buf, size_t size) {
    u32 mode;
    long fd = kr_ask_link(t, w, &mode);
    if (fd == -ESRCH)
        return w->entry == KR_PE_NS_N || (n < 0 && w->entry != KR_PE_EXE) ? n : -EACCES;
    if (fd < 0)
        return fd;
    n = link_of_fd((int)fd, buf, size);
    kr_fd_shut(fd);
    return n;
}

/* The payload's view of the link `fd` of a procfs. n: the kernel's answer. Length or -errno. */
static long judged_link(struct kr_task *t, int fd, const struct statx *sx, long n, char *buf, size_t size) {
    struct kr_proc_name pn;
    switch (kr_judge(t, fd, sx, &pn)) {
    case KR_V_EXE:
        return link_of_fd(t->proc->exe_fd, buf, size);
    case KR_V_ABSENT:
        return -ENOENT;
    case KR_V_DENY:
        return -EACCES;
    case KR_V_LINK:
        return other_link(t, &pn, n, buf, size);
    default:
        return n;
    }
}

/* readlinkat(2) of one name in a directory, without a walk of further components. */
static long link_in(struct kr_task *t, int dir, const char *name, char *buf, size_t size) {
    struct statx sx;
    struct kr_proc_name pn;
    long n = kr_sys4(__NR_readlinkat, (s64)dir, name, buf, size);
    if (n < 0 && n != -EACCES)
        return n;
    if (n == -EACCES && kr_walk_fds(t, dir, name, &pn) && !kr_place_own(&pn))
        return pn.entry == KR_PE_FD_N ? other_link(t, &pn, n, buf, size) : n;
    u64 how = AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | (*name ? 0 : AT_EMPTY_PATH);
    long r = kr_sys5(__NR_statx, (s64)dir, name, how, STATX_TYPE, &sx);
    if (r < 0)
        return r; /* another thread has taken the name away: the text cannot be judged */
    if (!kr_maybe_proc(&sx))
        return view_link(buf, n, size);
    /* Another thread may exchange the name between this call and readlinkat: then the text of a link leaks,
     * and nothing else. */
    int mine = *name != 0;
    long fd = mine ? kr_open_plain(dir, name, O_PATH | O_NOFOLLOW, 0) : dir;
    if (fd < 0)
        return fd;
    r = kr_stat_fd((int)fd, &sx);
    if (r < 0 || kr_on_proc((int)fd, &sx))
        n = r < 0 ? -EACCES : judged_link(t, (int)fd, &sx, n, buf, size);
    if (mine)
        kr_fd_shut(fd);
    return view_link(buf, n, size);
}

long kr_readlink(struct kr_task *t, int dirfd, char *path, char *buf, size_t size) {
    struct kr_parent p;
    if (kr_fd_hidden((u32)dirfd) && path[0] != '/')
        return -EBADF;
    if (!*path)
        return link_in(t, dirfd, path, buf, size);
    long r = kr_parent_open(t, dirfd, path, &p);
    if (r < 0)
        return r;
    if (p.slash) { /* the slash makes the kernel follow a link; the object behind it is no link */
        r = kr_open_path(t, p.dir, p.last, O_DIRECTORY);
        kr_fd_shut(r);
        r = r < 0 ? r : -EINVAL;
    } else {
        r = link_in(t, p.dir, p.last, buf, size);
    }
    kr_parent_close(&p);
    return r;
}

/* The kind of the directory pn. */
static int kind_of(struct kr_task *t, const struct kr_proc_name *pn) {
    struct kr_board_entry e;
    switch (pn->entry) {
    case KR_PE_MAP_FILES:
        return KR_DIR_EMPTY;
    case KR_PE_TASK:
        return kr_place_own(pn) || kr_place_asked(pn) ? KR_DIR_TASKS : KR_DIR_PLAIN;
    case KR_PE_FD:
    case KR_PE_FDINFO:
        /* A process that is not known may be a monitor all the same: one in another pid namespace, or one that has just begun. */
        return kr_place_own(pn)                               ? KR_DIR_FDS
               : kr_ask_known(t, kr_place_asked(pn), &e) == 0 ? KR_DIR_FDS_OTHER
                                                              : KR_DIR_REFUSED;
    default:
        return KR_DIR_PLAIN;
    }
}

int kr_dir_kind(struct kr_task *t, int fd, u32 *pid) {
    struct kr_proc_name pn;
    struct statx sx;
    long r = kr_stat_fd(fd, &sx);
    if (r < 0)
        return r == -EBADF ? KR_DIR_PLAIN
                           : KR_DIR_REFUSED; /* the kernel's own answer to a number that is not open */
    if (!kr_maybe_proc(&sx) || !kr_on_proc(fd, &sx))
        return KR_DIR_PLAIN;
    char *path = kr_alloc_any(KR_PATH_ROOM);
    if (!path)
        return KR_DIR_REFUSED;
    int kind;
    if (kr_place_name(t, fd, &sx, path, &pn) >= 0) {
        kind = kind_of(t, &pn);
        /* The threads of the calling process are known by its own numbers, or by those of the monitor's procfs. */
        int by_ours = kind == KR_DIR_TASKS && !(pn.numbers & KR_NUMBERS_MINE) && kr_place_asked(&pn);
        *pid = kr_place_own(&pn) && !by_ours ? 0 : (u32)pn.pid;
    } else {
        kind = kr_place_plain_dir(fd, &sx, path) ? KR_DIR_PLAIN : KR_DIR_REFUSED;
    }
    kr_free(path, KR_PATH_ROOM);
    return kind;
}
