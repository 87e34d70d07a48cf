/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening paths with names of map_files: see mapfiles.h. No state, no locks.
 */
#include "mapfiles.h"
#include "found.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

static const char *digits(const char *s) {
    while ((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'f') || (*s >= 'A' && *s <= 'F'))
        s++;
    return s;
}

int kr_map_name(const char *name) {
    const char *minus = digits(name);
    if (minus == name || *minus != '-')
        return 0;
    const char *end = digits(minus + 1);
    return end > minus + 1 && (!*end || *end == '/');
}

int kr_map_in(const char *path) {
    for (const char *at = path + (path[0] == '/'); *at; at = kr_comp_next(at, kr_comp_len(at)))
        if (kr_map_name(at))
            return 1;
    return 0;
}

int kr_map_files(struct kr_task *t, int dir) {
    struct kr_proc_name pn;
    struct statx sx;
    long r = kr_stat_fd(dir, &sx), here = -1;
    if (r < 0 || !KR_IS_DIR(sx.stx_mode) || !kr_maybe_proc(&sx))
        return 0;
    if (dir == AT_FDCWD) {
        here = kr_open_plain(AT_FDCWD, ".", O_PATH, 0);
        if (here < 0) /* not searchable: nor for the kernel's lookup; or no free number */
            return 1;
        dir = (int)here;
    }
    char *path = kr_on_proc(dir, &sx) ? kr_alloc_any(KR_PATH_ROOM) : NULL;
    int is = kr_on_proc(dir, &sx);
    if (path)
        is = kr_place_name(t, dir, &sx, path, &pn) < 0 ? !kr_place_plain_dir(dir, &sx, path)
                                                       : pn.entry == KR_PE_MAP_FILES;
    kr_free(path, path ? KR_PATH_ROOM : 0);
    kr_fd_shut(here);
    return is;
}

int kr_map_unknown(long r) { return r == -EMFILE || r == -ENFILE || r == -ENOMEM; }

/* The directory path[0..end) for the judgement, opened O_PATH with the demands of `how`, or -errno. */
static long directory(struct kr_task *t, int dirfd, char *path, char *end, const struct open_how *how,
                      kr_map_open_fn *open) {
    struct open_how dir = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = how->resolve};
    char was[3];
    if (end == path)
        return open(t, dirfd, ".", &dir);
    memcpy(was, end, sizeof was);
    memcpy(end, ".", 2); /* behind the slash: a link before it is in the middle (fs.protected_symlinks) */
    long fd = open(t, dirfd, path, &dir);
    memcpy(end, was, sizeof was);
    return fd;
}

static char *last_of(char *path) {
    char *last = path;
    for (char *at = path; *at; at++)
        if (at > path && at[-1] == '/' && *at != '/')
            last = at;
    return last;
}

/* Puts the name that is never there in the place of each name of map_files that is not the last one. */
static void hide_in(struct kr_task *t, int dirfd, char *path, const char *last, const struct open_how *how,
                    kr_map_open_fn *open) {
    for (char *at = path + (path[0] == '/'); at < last; at = (char *)kr_comp_next(at, kr_comp_len(at))) {
        if (!kr_map_name(at))
            continue;
        long dir = directory(t, dirfd, path, at, how, open);
        int is = dir < 0 ? kr_map_unknown(dir) : kr_map_files(t, (int)dir);
        kr_fd_shut(dir);
        if (is) {
            size_t n = kr_comp_len(at), none = sizeof KR_MAP_NONE - 1;
            memcpy(at, KR_MAP_NONE, none);
            memmove(at + none, at + n, strlen(at + n) + 1);
        }
        if (is || dir < 0)
            return; /* nor does the kernel go further */
    }
}

long kr_map_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *how,
                 kr_map_open_fn *open) {
    size_t n = strlen(path), room = KR_PATH_ROOM + 8;
    char *copy = n < KR_PATH_ROOM ? kr_alloc_any(room) : NULL;
    if (!copy)
        return n < KR_PATH_ROOM ? -ENOMEM : -ENAMETOOLONG;
    memcpy(copy, path, n + 1);
    hide_in(t, dirfd, copy, last_of(copy), how, open);
    char *last = last_of(copy);
    long fd;
    if (!kr_map_name(last)) {
        fd = open(t, dirfd, copy, how);
    } else { /* the kernel looks the name up in the directory that was judged */
        long dir = directory(t, dirfd, copy, last, how, open);
        dir = kr_found_aside(dir, kr_slot_put(t, (int)dir));
        char *slash = last + kr_comp_len(last);
        const char *name =
            dir >= 0 && kr_map_files(t, (int)dir) ? (*slash ? KR_MAP_NONE "/" : KR_MAP_NONE) : last;
        fd = dir < 0 ? dir : open(t, (int)dir, name, how);
        kr_slot_free((int)dir);
    }
    kr_free(copy, room);
    return fd;
}
