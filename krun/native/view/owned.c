/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the entries of /proc/self that Linux gives to the process's user (proc(5)): the maps of its user namespace, comm,
 * oom_score_adj and others. The kernel gives the entries of an undumpable process to root (task_dump_owner() in
 * fs/proc/base.c), and the monitor is never dumpable. So the monitor is dumpable while the entry is looked up and opened. The
 * kernel then decides as for the payload, and its checks of what is written are those of the payload's credentials.
 *
 * What this moment shows: nothing to the payload, because the monitors refuse or answer the entries of a process by their names
 * (procfs.h), and serve no call that reaches into another process. The kernel could write a core of the monitor: so the task is
 * the only one on its memory, and all its signals are blocked, and SIGKILL leaves no core. No step of the
 * moment can block: one name is looked up, in a directory of a procfs, on one mount.
 *
 * No state, no locks: no other task has the memory.
 */
#include "found.h"
#include "place.h"
#include "../process/hostsig.h"
#include "../machine/mm.h"
#include "../process/nnp.h"
#include <asm/signal.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/prctl.h>

static const char *const owned[] = {
    "autogroup",     "comm",       "coredump_filter", "gid_map",   "loginuid",       "oom_adj",
    "oom_score_adj", "projid_map", "sched",           "setgroups", "timens_offsets", "uid_map",
};

static const char *owned_name(const char *base) {
    for (u32 i = 0; i < KR_COUNT(owned); i++)
        if (strcmp(base, owned[i]) == 0)
            return owned[i];
    return NULL;
}

/* The open itself. fd: the entry; dir: its directory; name: one of `owned`. The look-up gives the inode the owner of this moment
 * (pid_revalidate() in fs/proc/base.c). fd is opened, not what was looked up, because its mount may be another one of
 * the same procfs. */
static long open_dumpable(int fd, long dir, const char *name, u64 flags) {
    const struct open_how how = {.flags = flags & ~(u64)(O_CREAT | O_EXCL | O_NOFOLLOW)};
    const kr_sigset all = ~0ULL;
    kr_sigset old;
    char link[64];
    int at = kr_proc_self_fd(link, sizeof link, fd);
    long r = kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    if (r < 0)
        return r;
    kr_sys5(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    long found = kr_open_plain((int)dir, name, O_PATH | O_NOFOLLOW, RESOLVE_NO_XDEV);
    kr_fd_shut(found); /* before the open, which gives the lowest number */
    r = kr_sys4(__NR_openat2, (s64)at, link, &how, sizeof how);
    kr_undumpable();
    kr_sys4(__NR_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
    return r;
}

/* A directory of the entry fd in its procfs, in a slot, and the name of the entry. -EACCES: not below it any more, or not one of `owned`. */
static long directory(struct kr_task *t, int fd, const struct statx *sx, char *path, const char **name) {
    struct statx up;
    if (kr_place_path(fd, path) < 0)
        return -EACCES;
    char *base = strrchr(path, '/') + 1;
    *name = owned_name(base);
    if (!*name)
        return -EACCES;
    *base = 0;
    long dir =
        kr_slot_put(t, (int)kr_open_plain(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS));
    if (dir >= 0 && kr_stat_fd((int)dir, &up) == 0 && kr_on_proc((int)dir, &up) &&
        up.stx_dev_major == sx->stx_dev_major && up.stx_dev_minor == sx->stx_dev_minor)
        return dir;
    kr_slot_free((int)dir);
    return -EACCES;
}

long kr_owned_open(struct kr_task *t, int fd, const struct statx *sx, u64 flags) {
    const char *name;
    if ((flags & O_ACCMODE) == O_RDONLY || t->mm->tasks != t || t->next || !kr_dumpable_view(t) ||
        !kr_on_proc(fd, sx))
        return -EACCES;
    char *path = kr_alloc_any(KR_PATH_ROOM);
    if (!path)
        return -ENOMEM;
    long dir = directory(t, fd, sx, path, &name);
    kr_free(path, KR_PATH_ROOM);
    if (dir < 0)
        return -EACCES;
    long r = open_dumpable(fd, dir, name, flags);
    kr_slot_free((int)dir);
    return r;
}
