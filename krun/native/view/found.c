/* SPDX-License-Identifier: Apache-2.0
 *
 * The object that an open has found: the object itself with the payload's flags, or the text in its place (found.h).
 *
 * State: none. Locks: none of its own. Callers: procfs.c and the handlers of sys/, on the calling task's thread.
 */
#include "found.h"
#include "ask.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

/* ---- Texts ---- */

/* The view of entry w of this process: a descriptor or -errno. fd: as for kr_procview_own_text. */
static long view(struct kr_task *t, const struct kr_proc_name *w, int fd) {
    char rel[64];
    if (kr_proc_figures(w->entry))
        return kr_procview_own_text(t, w, fd);
    kr_snprintf(rel, sizeof rel, "thread-self/%s",
                kr_proc_entry_name(w->entry)); /* all threads share the memory */
    return kr_procview(t, w->entry, rel);
}

long kr_found_lowest(long fd, u64 flags) {
    int cmd = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD;
    long low = kr_slot_out((int)fd, cmd);
    if (low < 0 || low != fd)
        return low;
    low = kr_fd_dup((u64)fd, cmd, 0);
    if (low < 0)
        return fd;
    if (low > fd) {
        kr_fd_shut(low);
        return fd;
    }
    kr_fd_shut(fd);
    return low;
}

long kr_found_aside(long at, long slot) {
    long n = at < 0 || slot != at ? slot : kr_sys3(__NR_fcntl, at, F_DUPFD_CLOEXEC, at + 1);
    if (n < 0 || n == slot)
        return slot;
    kr_fd_shut(at);
    return n;
}

long kr_found_hand_out(long fd, u64 flags) {
    if (fd >= 0 && !(flags & O_CLOEXEC))
        kr_fd_call((u64)fd, __NR_fcntl, F_SETFD, 0);
    return kr_found_lowest(fd, flags);
}

long kr_found_view(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    return (flags & O_ACCMODE) != O_RDONLY ? -EACCES : kr_found_hand_out(view(t, w, fd), flags);
}

/* Opens the text w of another process with the payload's flags. -ESRCH: the process is not a monitor of this
 * container, and the payload may read the kernel's text. -EACCES if the payload may not. fd: the entry, where no other thread
 * can exchange it. */
static long other_text(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    if ((flags & O_ACCMODE) != O_RDONLY) /* the payload writes no entry of another process */
        return -EACCES;
    long r = kr_procview_other(t, w, fd);
    /* The calling process itself has an unknown number where the payload looks from a pid namespace of its own, or into
     * a procfs of another one. What status and environ show of it is the payload's (kr_publish_mm). fdinfo shows the
     * monitor's descriptors; auxv tells where a monitor lies that has just been started. */
    return r == -ESRCH && w->entry != KR_PE_STATUS && w->entry != KR_PE_STATM ? -EACCES
                                                                              : kr_found_hand_out(r, flags);
}

long kr_found_other_text(struct kr_task *t, const struct kr_proc_name *w, int fd, u64 flags) {
    long r = other_text(t, w, fd, flags);
    return r == -ESRCH ? -EACCES : r;
}
/* ---- The object ---- */

long kr_may_write(int fd) {
    struct statx sx;
    if (kr_stat_fd(fd, &sx) < 0 || (!KR_IS_DIR(sx.stx_mode) && kr_on_proc(fd, &sx)))
        return -EACCES;
    return kr_write_refused(fd, &sx, O_WRONLY);
}

/* Opens the object of descriptor fd again. fd: O_PATH, at a number where no other thread can exchange it. May
 * block (FIFO). */
static long reopen(int fd, u64 flags) {
    char link[64];
    int dir = kr_proc_self_fd(link, sizeof link, fd);
    struct open_how how = {.flags = flags & ~(u64)(O_CREAT | O_EXCL | O_NOFOLLOW)};
    return kr_open_intr(dir, link, &how);
}

/* open_passed: too many opens wait. No errno has this value. */
#define CROWDED (-KR_ERESTART - 1)
#define LATER_NS 10000000

long kr_found_later(struct kr_task *t) {
    const s64 pause[2] = {0, LATER_NS};
    kr_call_intr(__NR_nanosleep, (u64)pause, 0, 0, 0, 0, 0);
    t->resumed = 1;
    t->waited = 0;
    t->resume_rip = kr_regs(t)->rip - 2;
    return -KR_ERESTART;
}

/* Opens the regular file of fd again, without waiting for another process that holds a lease on it (F_SETLEASE of fcntl(2)). */
static long open_at_once(int fd, u64 flags) {
    long n = reopen(fd, flags | O_NONBLOCK);
    if (n >= 0)
        kr_sys3(__NR_fcntl, n, F_SETFL, flags);
    return n == -EAGAIN ? CROWDED : n;
}

/* Opens the object of fd with the verdict KR_V_PASS again. mode: its stx_mode. A FIFO's open waits for another process, a regular
 * file's for one that holds a lease. */
static long open_passed(int fd, u32 mode, u64 flags) {
    if (KR_IS_LINK(mode))
        return -ELOOP;
    if (flags & O_CREAT && KR_IS_DIR(mode))
        return -EISDIR;
    int fifo = KR_IS_FIFO(mode) && (flags & O_ACCMODE) != O_RDWR;
    if (flags & O_NONBLOCK || !(fifo || (mode & S_IFMT) == S_IFREG) || kr_slot_linger(fd))
        return reopen(fd, flags);
    return fifo ? CROWDED : open_at_once(fd, flags);
}

long kr_open_found(struct kr_task *t, long at, u64 flags) {
    struct statx sx = {0};
    struct kr_proc_name what;
    long fd, slot = kr_slot_put(t, (int)at);
    if (slot < 0)
        return slot;
    slot = kr_found_aside(at, slot);
    enum kr_verdict v = kr_inspect(t, (int)slot, &sx, &what);
    if ((v == KR_V_VIEW || v == KR_V_TEXT) && !kr_rules_let(t, (int)slot, &what, sx.stx_mode))
        v = KR_V_DENY;
    switch (v) {
    case KR_V_PASS:
        fd = kr_write_refused((int)slot, &sx, flags);
        if (fd == 0)
            fd = open_passed((int)slot, sx.stx_mode, flags);
        if (fd == -EACCES)
            fd = kr_owned_open(t, (int)slot, &sx, flags);
        break;
    case KR_V_ABSENT:
        fd = -ENOENT;
        break;
    case KR_V_VIEW:
        fd = kr_found_view(t, &what, (int)slot, flags);
        break;
    case KR_V_TEXT:
        fd = other_text(t, &what, (int)slot, flags);
        if (fd == -ESRCH)
            fd = reopen((int)slot, flags);
        break;
    default:
        fd = KR_IS_LINK(sx.stx_mode) ? -ELOOP : -EACCES;
        break;
    }
    kr_slot_free((int)slot);
    if (fd == CROWDED)
        return kr_found_later(t);
    return slot == at ? kr_found_lowest(fd, flags) : fd;
}

long kr_found_opened(struct kr_task *t, long fd, u64 flags) {
    struct statx sx;
    struct kr_proc_name what;
    enum kr_verdict v = kr_inspect(t, (int)fd, &sx, &what);
    int why = v == KR_V_PASS ? kr_write_refused((int)fd, &sx, flags) : 0;
    if (v == KR_V_PASS && !why)
        return fd;
    if (v == KR_V_TEXT ||
        v == KR_V_VIEW) { /* fd is closed after this: kr_found_lowest() moves the text down */
        long r =
            v == KR_V_VIEW ? kr_found_view(t, &what, (int)fd, flags) : other_text(t, &what, (int)fd, flags);
        if (r == -ESRCH)
            return fd;
        kr_fd_shut(fd);
        return kr_found_lowest(r, flags);
    }
    kr_fd_shut(fd);
    return v == KR_V_PASS ? why : v == KR_V_ABSENT ? -ENOENT : -EACCES;
}
