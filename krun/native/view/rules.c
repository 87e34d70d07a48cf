/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the kernel's rules let the payload read an entry of a procfs whose text or listing the monitor makes: those of the
 * payload's landlock(7) domains, and of the entry's mode and owner.
 *
 * Domains. The kernel refuses many of these entries to every monitor, because monitors are not dumpable, and it gives the same
 * errno where a rule refuses. So the kernel is asked by an open of the entry, and where that says nothing, by an open of
 * another entry of the same directory, which all may read.
 *
 * Owner. Of the calling process some entries are for their owner only (0400): the effective user while the process is dumpable, else
 * root (task_dump_owner() in fs/proc/base.c). The monitor is not dumpable, so the kernel's own verdict is that of an undumpable
 * process. An entry of another process is judged by that process (view/answer.c).
 *
 * No state, no locks.
 */
#include "place.h"
#include "../process/nnp.h"
#include <linux/fcntl.h>

struct question {
    int fd; /* the entry, or negative */
    u64 pid, flags;
    int beside; /* whether the entry beside it may answer */
};

/* Opens and closes; for kr_private, because the text of the monitor must not stand at a number of the payload. 0 or -EACCES. */
static long opens(void *arg) {
    const struct question *q = arg;
    char path[64];
    struct statx sx;
    long fd = -EACCES, r = -EACCES;
    if (q->fd >= 0) {
        int dir = kr_proc_self_fd(path, sizeof path, q->fd);
        fd = kr_open_plain(dir, path, q->flags, 0);
    }
    if (fd < 0 && q->beside) {
        kr_snprintf(path, sizeof path, "/proc/%lu/%s", q->pid, q->flags & O_DIRECTORY ? "task" : "stat");
        fd = kr_open_plain(AT_FDCWD, path, q->flags, 0);
    }
    if (fd >= 0 && kr_stat_fd((int)fd, &sx) == 0 && kr_on_proc((int)fd, &sx))
        r = 0;
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    return r;
}

/* fd, w, mode: as in kr_rules_let. */
static int owner_lets(struct kr_task *t, int fd, const struct kr_proc_name *w, u32 mode) {
    if (fd < 0 || mode & 0004 || !kr_place_own(w))
        return 1;
    return (kr_dumpable_view(t) && kr_sys1(__NR_setfsuid, -1) == kr_sys0(__NR_geteuid)) ||
           kr_sys4(__NR_faccessat2, fd, "", R_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

int kr_rules_let(struct kr_task *t, int fd, const struct kr_proc_name *w, u32 mode) {
    int open_to_all = (mode & 0004) != 0, by_mode = kr_place_own(w) || kr_proc_figures(w->entry);
    struct question q = {.fd = fd, .pid = w->pid, .flags = KR_IS_DIR(mode) ? O_DIRECTORY : 0};
    q.beside = !(open_to_all && by_mode); /* else only a rule can have refused the entry itself */
    return owner_lets(t, fd, w, mode) && (!t->domains.n || kr_private(t, opens, &q) == 0);
}
