/* SPDX-License-Identifier: Apache-2.0
 *
 * fs.protected_regular and fs.protected_fifos for an O_CREAT that has found a file (sysctl/fs of the kernel's documentation). The
 * kernel looks only if it is asked with O_CREAT, and the monitor opens the found file again without it.
 *
 * State: none. Locks: none.
 */
#include "found.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

int kr_protected_asked(int fd, struct statx *sx) {
    return kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_UID, sx) == 0 &&
           !KR_IS_DIR(sx->stx_mode) && sx->stx_uid != (u32)kr_sys1(__NR_setfsuid, -1);
}

#define STRICTEST 2 /* the highest level of both */

/* The level that the host has set. It is read on a thread of its own (kr_private), for which a limit of the payload's may leave no
 * room: then the strictest. */
static u64 level_of(struct kr_task *t, const char *rel) {
    size_t size, len;
    char *text = kr_proc_slurp(t, rel, &size, &len);
    u64 v = text ? kr_strtou(text, NULL) : STRICTEST;
    kr_free(text, text ? size : 0);
    return v;
}

/* Whether the user namespace gives every id of the host a number, as the first one does. */
static int maps_all(struct kr_task *t) {
    size_t size, len;
    char *text = kr_proc_slurp(t, "thread-self/uid_map", &size, &len);
    const char *p = text;
    u64 v[3] = {~0ULL, ~0ULL, 0}; /* the first id here, its id outside, how many */
    for (u32 i = 0; p && i < KR_COUNT(v); i++) {
        while (*p == ' ')
            p++;
        v[i] = kr_strtou(p, &p);
    }
    kr_free(text, text ? size : 0);
    return v[0] == 0 && v[1] == 0 && v[2] == 0xffffffffu;
}

/* Whether a and b, numbers of statx(2), are one user. All users that the user namespace does not map have the same number. */
static int is_one(struct kr_task *t, u32 a, u32 b) {
    size_t size, len;
    if (a != b || maps_all(t))
        return a == b;
    char *text = kr_proc_slurp(t, "sys/kernel/overflowuid", &size, &len);
    int is = text && kr_strtou(text, NULL) != a;
    kr_free(text, text ? size : 0);
    return is;
}

int kr_protected_lets(struct kr_task *t, const struct kr_walk *w) {
    struct statx sx;
    if (!(w->dir_mode & S_ISVTX) || !kr_protected_asked(w->at, &sx) || is_one(t, sx.stx_uid, w->dir_uid))
        return 1;
    u32 type = sx.stx_mode & S_IFMT;
    u64 level = type == S_IFREG   ? level_of(t, "sys/fs/protected_regular")
                : type == S_IFIFO ? level_of(t, "sys/fs/protected_fifos")
                                  : 1;
    return !level || !(w->dir_mode & 0002 || (w->dir_mode & 0020 && level >= 2));
}
