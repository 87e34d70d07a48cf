/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a name (struct kr_parent in procfs.h). No state, no locks.
 */
#include "mapfiles.h"
#include "walk.h"
#include <linux/fcntl.h>

/* A number that is never open: it is above every possible fs.nr_open. */
#define NO_NUMBER "2147483647"

/* Opens the directory path[0..stop), or the root if stop is path. Where that is refused, once more with "/." behind it: the
 * kernel walks a link there as one in the middle of a path, which fs.protected_symlinks does not concern. At least two bytes
 * follow stop. Descriptor or -errno. */
static long open_dir_of(struct kr_task *t, int dirfd, char *path, char *stop) {
    char was[3];
    memcpy(was, stop, sizeof was);
    *stop = 0;
    long fd = kr_open_path(t, dirfd, stop > path ? path : "/", O_DIRECTORY);
    if (fd == -EACCES) {
        memcpy(stop, "/.", sizeof was);
        fd = kr_open_path(t, dirfd, path, O_DIRECTORY);
    }
    memcpy(stop, was, sizeof was);
    return fd;
}

/* For a name in the form of those of map_files: the kernel must look it up in the directory that is judged here. 0 or
 * -errno; then p is closed. */
static long in_slot(struct kr_task *t, struct kr_parent *p) {
    long fd = p->owned ? p->dir : kr_open_plain(p->dir, ".", O_PATH, 0);
    if (fd == -ENOTDIR || fd == -EBADF) /* the kernel's own answer */
        return 0;
    p->owned = 0;
    fd = kr_slot_put(t, (int)fd);
    if (fd < 0)
        return fd;
    p->dir = (int)fd;
    p->owned = p->in_slot = 1;
    p->hidden = kr_map_files(t, p->dir);
    if (p->hidden)
        p->last = p->slash ? KR_MAP_NONE "/" : KR_MAP_NONE;
    return 0;
}

long kr_parent_open(struct kr_task *t, int dirfd, char *path, struct kr_parent *p) {
    struct kr_proc_name pn;
    char *end = path + strlen(path), *last;
    p->dir = dirfd;
    p->owned = p->in_slot = p->hidden = 0;
    while (end > path && end[-1] == '/')
        end--;
    last = end;
    while (last > path && last[-1] != '/')
        last--;
    p->slash = *end == '/';
    p->last = path;
    if (!*path)
        return -ENOENT;
    if (kr_fd_hidden((u32)dirfd) && path[0] != '/')
        return -EBADF;
    char *stop = last;
    while (stop > path && stop[-1] == '/')
        stop--;
    int number = kr_proc_number(last, &pn.n), range = kr_map_name(last);
    if (stop > path ||
        ((number || range) && path[0] == '/')) { /* components before the last one, or the root */
        long fd = open_dir_of(t, dirfd, path, stop);
        if (fd < 0)
            return fd;
        p->dir = (int)fd;
        p->owned = 1;
        p->last = last;
    }
    if (range)
        return in_slot(t, p);
    if (number && kr_walk_fds(t, p->dir, last, &pn) && kr_place_own(&pn) && kr_fd_hidden(pn.n))
        p->last = p->slash ? NO_NUMBER "/" : NO_NUMBER;
    return 0;
}

void kr_parent_close(struct kr_parent *p) {
    if (p->in_slot)
        kr_slot_free(p->dir);
    else if (p->owned)
        kr_fd_shut(p->dir);
    p->owned = 0;
}
