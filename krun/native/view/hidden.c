/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths through a number that the monitor hides (fd/N, fdinfo/N of this process): the answers are those for a number that is not
 * open.
 *
 * State: none. Locks: none.
 */
#include "found.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

long kr_hidden_number(struct kr_task *t, long fd, const char *path) {
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

int kr_hidden_on_way(struct kr_task *t, int dirfd, const char *path) {
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
