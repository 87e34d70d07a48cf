/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on a name: mkdir, mknod, unlink, rmdir, rename, link, symlink. The directory is found with judgement.
 * The kernel gets the directory and the last component, which these calls do not follow (path.h). A path with
 * one component costs no further host call.
 *
 * No state, no locks.
 */
#include "path.h"
#include "../process/process.h"
#include "../view/mapfiles.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

struct names {
    long nr;
    u64 b[6];
    int at[2]; /* index of each pair (directory, path) in b; -1: no second pair */
    char *path[2];
};

static void put_paths(struct names *n) {
    for (int i = 0; i < 2; i++)
        if (n->path[i])
            kr_path_put(n->path[i]);
}

/* Runs on a thread with a copy of a descriptor table that has no free number: it closes standard descriptors
 * of the copy to make room. */
static long with_room(void *arg) {
    struct names *n = arg;
    int room = 0;
    for (int fd = 0; fd < 4 && room < 2; fd++)
        if (fd != (int)n->b[n->at[0]] && (n->at[1] < 0 || fd != (int)n->b[n->at[1]])) {
            kr_sys1(__NR_close, fd);
            room++;
        }
    for (int i = 0; i < 2 && n->at[i] >= 0; i++) {
        char *slash = strrchr(n->path[i], '/');
        if (!slash || !slash[1] || slash == n->path[i])
            continue; /* one component, or a form that the next loop refuses */
        *slash = 0;
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
        long fd = kr_sys4(__NR_openat2, (s64)(int)n->b[n->at[i]], n->path[i], &how, sizeof how);
        if (fd < 0)
            return fd == -ELOOP   ? -EMFILE
                   : fd == -EPERM ? -ENOENT /* a name of map_files that is there (view/mapfiles.h) */
                                  : fd;
        n->b[n->at[i]] = (u64)fd;
        n->b[n->at[i] + 1] = (u64)(slash + 1);
    }
    for (int i = 0; i < 2 && n->at[i] >= 0; i++) {
        const char *name = (const char *)n->b[n->at[i] + 1];
        if (kr_map_name(name + (name[0] == '/'))) /* its directory cannot be judged here (view/mapfiles.h) */
            return -EMFILE;
        if (strchr(name + (name[0] == '/'), '/'))
            return -EMFILE;
    }
    const u64 *b = n->b;
    return kr_sys6(n->nr, b[0], b[1], b[2], b[3], b[4], b[5]);
}

long kr_names(struct kr_task *t, long nr, const u64 a[6], int i, int j) {
    struct names n = {.nr = nr, .at = {i, j}, .path = {NULL, NULL}};
    struct kr_parent p[2] = {{.owned = 0}, {.owned = 0}};
    long r = 0;
    memcpy(n.b, a, sizeof n.b);
    for (int k = 0; k < 2 && n.at[k] >= 0 && r >= 0; k++) {
        u64 *pair = &n.b[n.at[k]];
        r = kr_path_copy(pair[1], &n.path[k]);
        if (r >= 0)
            r = kr_parent_open(t, (int)pair[0], n.path[k], &p[k]);
        if (r >= 0 && nr == __NR_linkat && n.at[k] == 0 && p[k].slash)
            r = -EPERM; /* linkat would follow it; the payload may have added the slash after link_any's check */
        if (r < 0) {
            r = kr_path_error(nr, n.b, n.at[k] + 1, r);
        } else {
            pair[0] = (u64)(s64)p[k].dir;
            pair[1] = (u64)p[k].last;
        }
    }
    if (r >= 0)
        r = kr_forward(nr, n.b);
    kr_parent_close(&p[1]);
    kr_parent_close(&p[0]);
    put_paths(&n);
    if (r != -EMFILE)
        return r;
    memcpy(n.b, a, sizeof n.b);
    n.path[0] = n.path[1] = NULL;
    r = 0;
    for (int k = 0; k < 2 && n.at[k] >= 0 && r >= 0; k++) {
        r = kr_path_copy(n.b[n.at[k] + 1], &n.path[k]);
        n.b[n.at[k] + 1] = (u64)n.path[k];
    }
    r = r < 0 ? r : kr_alone(t, with_room, &n);
    put_paths(&n);
    return r;
}

#define CWD ((u64)(s64)AT_FDCWD)

long sys_mkdir(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_mkdirat, (u64[6]){CWD, a[0], a[1]}, 0, -1);
}

long sys_mkdirat(struct kr_task *t, const u64 a[6]) { return kr_names(t, __NR_mkdirat, a, 0, -1); }

long sys_mknod(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_mknodat, (u64[6]){CWD, a[0], a[1], a[2]}, 0, -1);
}

long sys_mknodat(struct kr_task *t, const u64 a[6]) { return kr_names(t, __NR_mknodat, a, 0, -1); }

long sys_unlink(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_unlinkat, (u64[6]){CWD, a[0], 0}, 0, -1);
}

long sys_rmdir(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_unlinkat, (u64[6]){CWD, a[0], AT_REMOVEDIR}, 0, -1);
}

long sys_unlinkat(struct kr_task *t, const u64 a[6]) { return kr_names(t, __NR_unlinkat, a, 0, -1); }

long sys_symlink(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_symlinkat, (u64[6]){a[0], CWD, a[1]}, 1, -1);
}

long sys_symlinkat(struct kr_task *t, const u64 a[6]) { return kr_names(t, __NR_symlinkat, a, 1, -1); }

long sys_rename(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_renameat2, (u64[6]){CWD, a[0], CWD, a[1], 0}, 0, 2);
}

long sys_renameat(struct kr_task *t, const u64 a[6]) {
    return kr_names(t, __NR_renameat2, (u64[6]){a[0], a[1], a[2], a[3], 0}, 0, 2);
}

long sys_renameat2(struct kr_task *t, const u64 a[6]) { return kr_names(t, __NR_renameat2, a, 0, 2); }

/* ---- link: linkat looks up the old path, so a slash behind a symbolic link follows it ---- */

static int ends_in_slash(u64 ptr) {
    char *path;
    long n = kr_path_copy(ptr, &path);
    if (n < 0)
        return 0;
    int is = n > 0 && path[n - 1] == '/';
    kr_path_put(path);
    return is;
}

/* Finds the object of the old path and links it through the monitor's procfs. */
static long link_object(struct kr_task *t, const u64 a[6], u32 flags) {
    char rel[64];
    long fd = kr_path_find(t, a[0], a[1], flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
    if (fd < 0)
        return kr_path_error(__NR_linkat, a, 1, fd);
    int dir = kr_proc_self_fd(rel, sizeof rel, (int)fd);
    /* Only the second pair is a path of the payload: kr_names must not walk the monitor's path. */
    long n =
        kr_names(t, __NR_linkat, (u64[6]){(u64)(s64)dir, (u64)rel, a[2], a[3], AT_SYMLINK_FOLLOW}, 2, -1);
    kr_fd_shut(fd);
    return n;
}

static long link_any(struct kr_task *t, const u64 a[6]) {
    u32 flags = (u32)a[4];
    if (flags & ~(u32)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
        return kr_path_error(__NR_linkat, a, 1, -EINVAL);
    if (flags & AT_EMPTY_PATH && kr_path_empty(a[1])) {
        u64 b[6] = {a[0], kr_path_nothing(a[1]), a[2], a[3], flags};
        return kr_names(t, __NR_linkat, b, 2, -1);
    }
    if (flags & AT_SYMLINK_FOLLOW || ends_in_slash(a[1]))
        return link_object(t, a, flags);
    return kr_names(t, __NR_linkat, (u64[6]){a[0], a[1], a[2], a[3], 0}, 0, 2);
}

long sys_link(struct kr_task *t, const u64 a[6]) { return link_any(t, (u64[6]){CWD, a[0], CWD, a[1], 0}); }
long sys_linkat(struct kr_task *t, const u64 a[6]) { return link_any(t, a); }
