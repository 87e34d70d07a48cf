/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectored reads and writes; copies of arrays with pointers, also for other families (nested.h). No state, no
 * locks.
 */
#include "nested.h"
#include "../view/ask.h"

void *kr_temp(void *small, size_t small_size, size_t size) {
    return size <= small_size ? small : kr_alloc(size);
}

void kr_temp_drop(void *p, void *small, size_t size) {
    if (p && p != small)
        kr_free(p, size);
}

void kr_iovs_check(struct kr_iovec *v, u64 n) {
    for (u64 i = 0; i < n; i++)
        v[i].base = kr_guest_ptr(v[i].base, v[i].len);
}

long kr_iovs_in(struct kr_iovs *io, u64 ptr, u64 n, u64 *arg) {
    io->v = io->few;
    io->n = 0;
    *arg = KR_BAD_PTR;
    if (n > KR_IOV_MAX)
        return 0;
    if (n > KR_IOV_FEW) {
        io->v = kr_alloc(n * sizeof *io->v);
        if (!io->v)
            return -ENOMEM;
        io->n = n;
    }
    if (kr_copy_in(io->v, ptr, n * sizeof *io->v) < 0)
        return 0;
    kr_iovs_check(io->v, n);
    *arg = (u64)io->v;
    return 0;
}

void kr_iovs_drop(struct kr_iovs *io) {
    if (io->n)
        kr_free(io->v, io->n * sizeof *io->v);
}

void kr_iovs_skip(u64 *v, u64 *n, u64 done) {
    struct kr_iovec *at = (struct kr_iovec *)*v;
    for (; *n && done >= at->len; at++, --*n)
        done -= at->len;
    if (*n) {
        at->base += done;
        at->len -= done;
    }
    *v = (u64)at;
}

long kr_fprog_in(struct kr_fprog *f, u64 ptr) {
    if (kr_copy_in(f, ptr, sizeof *f) < 0)
        return -EFAULT;
    f->filter = kr_guest_ptr(f->filter, f->len * 8ULL);
    return 0;
}

/* The calls of this family: (fd, iovec array, count, ...). */
static long vectored(struct kr_task *t, long nr, const u64 a[6]) {
    struct kr_iovs io;
    u64 v, left = a[2];
    long r = kr_iovs_in(&io, a[1], left, &v), n;
    if (r < 0)
        return r;
    n = r = kr_call_intr(nr, a[0], v, left, a[3], a[4], a[5]);
    while (nr == __NR_writev && r > 0 && left && kr_ask_goes_on(t, n)) {
        kr_iovs_skip(&v, &left, n > 0 ? (u64)n : 0);
        n = left ? kr_call_intr(nr, a[0], v, left, 0, 0, 0) : 0;
        r += n > 0 ? n : 0;
    }
    kr_iovs_drop(&io);
    return r;
}

#define VECTORED(name)                                                                                       \
    long sys_##name(struct kr_task *t, const u64 a[6]) { return vectored(t, __NR_##name, a); }

VECTORED(readv)
VECTORED(writev)
VECTORED(preadv)
VECTORED(pwritev)
VECTORED(preadv2)
VECTORED(pwritev2)
VECTORED(vmsplice)
