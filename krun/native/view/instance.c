/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose numbers a procfs has. A procfs shows the processes of one pid namespace (proc(5)). A payload reaches procfs of other
 * namespaces: it makes namespaces and mounts, or keeps a procfs. There the number that getpid(2) gives, or the number of a
 * monitor on the board, is another process.
 *
 * The line NStgid of /proc/thread-self/status tells (proc_pid_status(5)): the numbers of the calling process from the
 * namespace of that procfs down to the process's own. One number: the two namespaces are the same. As many as in the monitor's
 * procfs: the procfs has the numbers of the monitor's, because both namespaces are on the one line of ancestors.
 *
 * State: proc->procfs, the last mount that was found to have the process's own numbers. A process never changes its pid
 * namespace, a mount never its file system, and the kernel uses the unique id of a mount (Linux 6.8) once. No locks.
 */
#include "place.h"
#include "../process/ns.h"
#include "../machine/fdtab.h"
#include <linux/fcntl.h>

u32 kr_place_count(const char *text, u32 *first) {
    static const char key[] = "\nNStgid:";
    u32 n = 0;
    const char *p = text;
    while (p && strncmp(p, key, sizeof key - 1) != 0)
        p = strchr(p + 1, '\n');
    for (p = p ? p + sizeof key - 1 : ""; *p == '\t'; n++) {
        u64 v = kr_strtou(p + 1, &p);
        if (n == 0)
            *first = (u32)v;
    }
    return n;
}

struct links {
    const struct statx *on;
    int root;       /* negative: /proc */
    u32 self, ours; /* what the links self of root and of the monitor's procfs say; 0: none */
};

static u32 link_self(int dir, const char *path) {
    char text[16];
    long n = kr_sys4(__NR_readlinkat, (s64)dir, path, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return (u32)kr_strtou(text, NULL);
}

/* Fills a struct links, if root lies on the file system `on`; for kr_private. */
static long links(void *arg) {
    struct links *l = arg;
    struct statx is;
    const char *top = l->root < 0 ? "/proc" : "", *self = l->root < 0 ? "/proc/self" : "self";
    int dir = l->root < 0 ? AT_FDCWD : l->root;
    if (kr_sys5(__NR_statx, (s64)dir, top, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &is) < 0 ||
        is.stx_dev_major != l->on->stx_dev_major || is.stx_dev_minor != l->on->stx_dev_minor)
        return -EACCES;
    l->self = link_self(dir, self);
    l->ours = kr_boot.fd_proc >= 0 ? link_self(kr_boot.fd_proc, "self") : l->self;
    return 0;
}

/* The text cannot be read: a security module refuses it (a landlock domain of the payload), or no descriptor is free. Links can
 * be read: equal numbers in all three places. They prove nothing in a pid namespace of the payload's own, which chooses its numbers
 * there (clone3(2), set_tid). */
static void by_links(struct kr_task *t, const struct statx *sx, int root, struct kr_proc_name *out) {
    struct links l = {.on = sx, .root = root};
    u32 me = (u32)kr_sys0(__NR_getpid);
    if (kr_private(t, links, &l) < 0)
        return;
    out->self = l.self;
    if (l.self == me && l.ours == me && kr_same_numbers(t->proc))
        out->numbers = KR_NUMBERS_MINE | KR_NUMBERS_OURS;
}

void kr_place_numbers(struct kr_task *t, const struct statx *sx, int root, struct kr_proc_name *out) {
    size_t size, len;
    u32 monitors = 0, here = 0;
    u64 mount = sx->stx_mask & KR_STATX_MNT_ID_UNIQUE ? sx->stx_mnt_id << 1 : 0;
    u64 known = __atomic_load_n(&t->proc->procfs, __ATOMIC_RELAXED);
    if (mount && (known & ~1ULL) == mount) {
        out->numbers = KR_NUMBERS_MINE | (known & 1 ? KR_NUMBERS_OURS : 0);
        return;
    }
    long dir = root < 0 ? kr_open_plain(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY, 0) : root;
    char *text = dir < 0 ? NULL : kr_proc_slurp_at(t, (int)dir, sx, "thread-self/status", &size, &len);
    if (text) {
        here = kr_place_count(text, &out->self);
        kr_free(text, size);
        text = kr_proc_slurp(t, "thread-self/status", &size, &len);
        monitors = text ? kr_place_count(text, &(u32){0}) : 0;
        kr_free(text, text ? size : 0);
        out->numbers = (here == 1 ? KR_NUMBERS_MINE : 0) | (here && here == monitors ? KR_NUMBERS_OURS : 0);
        if (mount && here == 1)
            __atomic_store_n(&t->proc->procfs, mount | (monitors == 1), __ATOMIC_RELAXED);
    } else {
        by_links(t, sx, (int)dir, out);
    }
    if (dir != root)
        kr_fd_shut(dir);
}
