/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the monitor's own procfs. Its texts show the monitor, so the monitor reads them only where no
 * thread of the payload can reach the descriptor (kr_private, fdtab.h).
 *
 * State: whether KVM makes threads in the process, found once. Locks: mm->lock while the list of tasks is
 * walked.
 */
#include "place.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

int kr_proc_handle(char *buf, size_t size, const char *rel) {
    if (kr_boot.fd_proc >= 0) {
        kr_snprintf(buf, size, "%s", rel);
        return kr_boot.fd_proc;
    }
    kr_snprintf(buf, size, "/proc/%s", rel);
    return AT_FDCWD;
}

/* thread-self, not self: the first thread of the process may have ended. */
int kr_proc_self_fd(char *buf, size_t size, int fd) {
    char rel[48];
    kr_snprintf(rel, sizeof rel, "thread-self/fd/%d", fd);
    return kr_proc_handle(buf, size, rel);
}

struct slurp {
    const char *rel;
    const struct statx *on; /* NULL: below the monitor's procfs handle; else the file system of dir */
    int dir;
    char *buf;
    size_t room, have;
};

/* Reads the file; for kr_private. 0 or -errno. */
static long slurp(void *arg) {
    struct slurp *s = arg;
    char path[64];
    struct statx is;
    int dir = kr_proc_handle(path, sizeof path, s->rel);
    if (s->on && (kr_stat_fd(s->dir, &is) < 0 || is.stx_dev_major != s->on->stx_dev_major ||
                  is.stx_dev_minor != s->on->stx_dev_minor))
        return -EACCES;
    long fd = s->on ? kr_open_plain(s->dir, s->rel, O_RDONLY,
                                    RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS)
                    : kr_open_plain(dir, path, O_RDONLY, 0),
         n = 0;
    if (fd < 0)
        return fd;
    s->room = 16384;
    s->buf = kr_alloc(s->room);
    while (s->buf) {
        if (s->room - s->have < 4097) {
            char *more = kr_realloc(s->buf, s->room, s->room * 2);
            if (!more)
                kr_free(s->buf, s->room);
            s->buf = more;
            s->room *= 2;
            continue;
        }
        n = kr_sys3(__NR_read, fd, s->buf + s->have, s->room - s->have - 1);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            break;
        s->have += (size_t)n;
    }
    kr_sys1(__NR_close, fd);
    if (!s->buf)
        return -ENOMEM;
    s->buf[s->have] = 0;
    return 0;
}

char *kr_proc_slurp(struct kr_task *t, const char *rel, size_t *size, size_t *len) {
    struct slurp s = {.rel = rel};
    long r = kr_private(t, slurp, &s);
    *size = s.room;
    *len = s.have;
    return r < 0 ? NULL : s.buf;
}

char *kr_proc_slurp_at(struct kr_task *t, int dir, const struct statx *on, const char *rel, size_t *size,
                       size_t *len) {
    struct slurp s = {.rel = rel, .on = on, .dir = dir};
    long r = kr_private(t, slurp, &s);
    *size = s.room;
    *len = s.have;
    return r < 0 ? NULL : s.buf;
}

/* ---- Numbers in a directory ---- */

/* Reads all numbers in a directory of procfs; for kr_private. 0 or -errno. */
static long numbers(void *arg) {
    struct kr_numbers *l = arg;
    char path[64], dents[4096];
    int dir = kr_proc_handle(path, sizeof path, l->rel);
    long fd = kr_open_plain(dir, path, O_RDONLY | O_DIRECTORY, 0), r = fd < 0 ? fd : 0, got = 0;
    while (r == 0 && (got = kr_sys3(__NR_getdents64, fd, dents, sizeof dents)) > 0)
        for (long at = 0; at < got && r == 0;) {
            u16 len;
            const char *name = dents + at + 19, *end;
            memcpy(&len, dents + at + 16, 2);
            at += len;
            u64 number = kr_strtou(name, &end);
            if (end == name || *end)
                continue;
            if (l->n == l->room) {
                u32 more = l->room ? l->room * 2 : 256;
                u32 *v =
                    more <= KR_NUMBERS_MAX ? kr_realloc(l->v, l->room * sizeof *v, more * sizeof *v) : NULL;
                if (!v) {
                    r = -ENOMEM;
                    break;
                }
                l->v = v;
                l->room = more;
            }
            l->v[l->n++] = (u32)number;
        }
    l->dir = (int)fd;
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    return r < 0 ? r : got;
}

long kr_proc_numbers(struct kr_task *t, const char *rel, struct kr_numbers *l) {
    *l = (struct kr_numbers){.rel = rel};
    return kr_private(t, numbers, l);
}

void kr_numbers_free(struct kr_numbers *l) {
    kr_free(l->v, l->room * sizeof *l->v);
    l->v = NULL;
}

/* ---- Threads that KVM made ---- */

#define PF_USER_WORKER 0x4000 /* a thread made by the kernel in a process: field 9 of stat (Linux 6.4) */

/* Whether tid is a thread of the payload in this process. */
static int is_task(struct kr_task *t, u64 tid) {
    int known = (long)tid == kr_sys0(__NR_getpid);
    kr_lock(&t->mm->lock);
    for (struct kr_task *o = t->mm->tasks; o && !known; o = o->next)
        known = o->tid == tid;
    kr_unlock(&t->mm->lock);
    return known;
}

int kr_thread_hidden(struct kr_task *t, u32 pid, u64 tid) {
    return pid ? kr_is_kvm_thread(t, pid, tid) : !is_task(t, tid);
}

int kr_is_kvm_thread(struct kr_task *t, u32 pid, u64 tid) {
    char rel[64];
    size_t size, len;
    if (pid ? pid == tid : is_task(t, tid))
        return 0;
    if (pid)
        kr_snprintf(rel, sizeof rel, "%u/task/%lu/stat", pid, tid);
    else
        kr_snprintf(rel, sizeof rel, "self/task/%lu/stat", tid);
    char *text = kr_proc_slurp(t, rel, &size, &len), *p = text ? strrchr(text, ')') : NULL;
    int is = 0;
    if (p && (p = strchr(text, '(')) && strncmp(p, "(kvm-", 5) == 0 && (p = strrchr(text, ')'))) {
        for (int field = 2; p && field < 9; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        is = p && kr_strtou(p, NULL) & PF_USER_WORKER;
    }
    kr_free(text, text ? size : 0);
    return is;
}

int kr_has_kvm_thread(struct kr_task *t) {
    static int known; /* 1: no, 2: yes; every thread finds the same answer */
    struct kr_numbers tids;
    int seen = __atomic_load_n(&known, __ATOMIC_RELAXED), is = 0;
    if (seen)
        return seen - 1;
    long r = kr_proc_numbers(t, "self/task", &tids);
    for (u32 i = 0; i < tids.n && !is; i++)
        is = kr_is_kvm_thread(t, 0, tids.v[i]);
    kr_numbers_free(&tids);
    if (is || r == 0)
        __atomic_store_n(&known, is + 1, __ATOMIC_RELAXED);
    return is;
}
