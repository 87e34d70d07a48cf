/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by which one process reaches another: process_vm_readv, process_vm_writev, process_madvise,
 * pidfd_getfd, kcmp. Here they reach the calling process only. Memory and descriptors of another process
 * belong to a monitor, so the answer is EPERM, as for a process that may not trace the other. No state, no
 * locks.
 */
#include "../process/above.h"
#include "nested.h"
#include "../process/process.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../machine/site.h"
#include "../machine/usercopy.h"
#include "../view/procfs.h"
#include <linux/fcntl.h>
#include <linux/mman.h>

long kr_own_thread(unsigned long pid) {
    s32 p = (s32)pid;
    if (p <= 0)
        return -ESRCH;
    if (kr_sys3(__NR_tgkill, kr_sys0(__NR_getpid), p, 0) == 0)
        return 0;
    return kr_sys2(__NR_kill, p, 0) == -ESRCH ? -ESRCH : -EPERM;
}

static long pid_line(char *text, size_t len) {
    for (char *p = text; p && p < text + len; p++) {
        if (!strncmp(p, "Pid:\t", 5))
            return (long)kr_strtou(p + 5, NULL);
        while (p < text + len && *p != '\n')
            p++;
    }
    return -1;
}

/* 0 when fd is a pidfd of the calling process, else -EBADF or -EPERM. */
static long own_pidfd(struct kr_task *t, u64 arg) {
    s32 fd = (s32)arg;
    if (fd < 0) /* PIDFD_SELF and similar values, if the kernel knows them */
        return kr_sys4(__NR_pidfd_send_signal, fd, 0, 0, 0) == 0 ? 0 : -EBADF;
    char rel[48];
    size_t size, len;
    kr_snprintf(rel, sizeof rel, "thread-self/fdinfo/%d", fd);
    char *text = kr_proc_slurp(t, rel, &size, &len);
    if (!text)
        return -EBADF;
    long pid = pid_line(text, len);
    kr_free(text, size);
    if (pid < 0)
        return -EBADF;
    /* The own pid in the numbers of the same procfs: a pid namespace that the payload has made has other
     * numbers. */
    text = kr_proc_slurp(t, "thread-self/status", &size, &len);
    if (!text)
        return -EPERM;
    long me = -1;
    for (char *p = text; p < text + len; p++)
        if (!strncmp(p, "\nTgid:\t", 7)) {
            me = (long)kr_strtou(p + 7, NULL);
            break;
        }
    kr_free(text, size);
    return pid == me ? 0 : -EPERM;
}

/* ---- memory ---- */

/* A position in an array of iovecs. */
struct cursor {
    const struct kr_iovec *v;
    u64 left; /* elements from v on */
    u64 at;   /* bytes of *v that are done */
};

static u64 rest(struct cursor *c) {
    while (c->left && c->at == c->v->len) {
        c->v++;
        c->left--;
        c->at = 0;
    }
    return c->left ? c->v->len - c->at : 0;
}

static u64 to_page_end(u64 addr, u64 n) { return KR_MIN(n, KR_PAGE - (addr & (KR_PAGE - 1))); }

/* dst is a copy of n bytes from src: it gets what the payload's text was before its sites were patched (machine/site.h). */
static void show_original(const struct kr_mm *mm, u64 src, u64 dst, u64 n) {
    u8 buf[KR_PAGE];
    if (kr_sites_any(mm, src, n) && kr_copy_in(buf, src, n) == 0) {
        kr_sites_original(mm, src, buf, n);
        kr_copy_out(dst, buf, n);
    }
}

/* Copies page by page: the bytes before an inaccessible page are copied, as on Linux. */
static long copy_vectors(const struct kr_mm *mm, struct cursor from, struct cursor to) {
    u64 total = 0, n;
    while ((n = rest(&from)) && rest(&to)) {
        u64 src = from.v->base + from.at, dst = to.v->base + to.at;
        n = to_page_end(dst, to_page_end(src, KR_MIN(n, rest(&to))));
        if (!kr_span_ok(src, n) || !kr_span_ok(dst, n) || kr_copy_raw((void *)dst, (const void *)src, n) < 0)
            return total ? (long)total : -EFAULT;
        show_original(mm, src, dst, n);
        from.at += n;
        to.at += n;
        total += n;
    }
    return (long)total;
}

/* Copies in n iovecs: 0 or -errno. room[KR_IOV_MAX]. */
static long vectors_in(struct kr_iovec *room, u64 ptr, u64 n, int local) {
    if (n > KR_IOV_MAX)
        return -EINVAL;
    if (kr_copy_in(room, ptr, n * sizeof *room) < 0)
        return -EFAULT;
    for (u64 i = 0; i < n; i++)
        if ((s64)room[i].len < 0)
            return -EINVAL;
    for (u64 i = 0; local && i < n; i++)
        if (!kr_span_ok(room[i].base, room[i].len))
            return -EFAULT;
    return 0;
}

static long process_vm(struct kr_task *t, const u64 a[6], int write) {
    if (a[5])
        return -EINVAL;
    struct kr_iovec *v = kr_alloc(2 * KR_IOV_MAX * sizeof *v), *remote = v + KR_IOV_MAX;
    if (!v)
        return -ENOMEM;
    long r = vectors_in(v, a[1], a[2], 1);
    struct cursor local = {v, a[2], 0}, other = {remote, a[4], 0};
    if (!r && rest(&local)) { /* without local bytes, Linux does not check the other arguments */
        r = vectors_in(remote, a[3], a[4], 0);
        if (!r)
            r = rest(&other) ? kr_own_thread(a[0]) : 0;
        if (!r)
            r = write ? copy_vectors(t->mm, local, other) : copy_vectors(t->mm, other, local);
    }
    kr_free(v, 2 * KR_IOV_MAX * sizeof *v);
    return r;
}

long sys_process_vm_readv(struct kr_task *t, const u64 a[6]) { return process_vm(t, a, 0); }

long sys_process_vm_writev(struct kr_task *t, const u64 a[6]) { return process_vm(t, a, 1); }

long sys_process_madvise(struct kr_task *t, const u64 a[6]) {
    if (a[4])
        return -EINVAL;
    struct kr_iovec *v = kr_alloc(KR_IOV_MAX * sizeof *v);
    if (!v)
        return -ENOMEM;
    u64 done = 0;
    long r = vectors_in(v, a[1], a[2], 1);
    if (!r)
        r = own_pidfd(t, a[0]);
    for (u64 i = 0; !r && i < a[2]; i++) {
        r = kr_mm_madvise(t->mm, v[i].base, v[i].len, (int)a[3]);
        done += r ? 0 : v[i].len;
    }
    kr_free(v, KR_IOV_MAX * sizeof *v);
    return done ? (long)done : r;
}

/* ---- descriptors ---- */

long sys_pidfd_getfd(struct kr_task *t, const u64 a[6]) {
    if ((u32)a[2])
        return -EINVAL;
    long r = own_pidfd(t, a[0]);
    if (t->mm->sockets)
        kr_sockets_passed(t, a[1]);
    if (r == 0)
        r = kr_fd_dup((u64)kr_guest_fd(a[1]), F_DUPFD_CLOEXEC, 0);
    kr_sockets_copied(t, a[1]);
    return r;
}

#define KCMP_FILE_K 0
#define KCMP_EPOLL_TFD_K 7

long sys_kcmp(struct kr_task *t, const u64 a[6]) {
    (void)t;
    long r = kr_own_thread(a[0]);
    if (!r)
        r = kr_own_thread(a[1]);
    if (r)
        return r;
    u64 x = a[3], y = a[4];
    u32 slot[3];
    if ((u32)a[2] == KCMP_FILE_K || (u32)a[2] == KCMP_EPOLL_TFD_K)
        x = (u32)kr_guest_fd(x);
    if ((u32)a[2] == KCMP_FILE_K)
        y = (u32)kr_guest_fd(y);
    if ((u32)a[2] == KCMP_EPOLL_TFD_K) {
        if (kr_copy_in(slot, y, sizeof slot) < 0) {
            y = KR_BAD_PTR;
        } else {
            slot[0] = (u32)kr_guest_fd(slot[0]);
            slot[1] = (u32)kr_guest_fd(slot[1]);
            y = (u64)slot;
        }
    }
    return kr_call_intr(__NR_kcmp, a[0], a[1], a[2], x, y, 0);
}
