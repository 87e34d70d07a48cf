/* SPDX-License-Identifier: Apache-2.0
 *
 *
 * Arrays of the payload with pointers inside: the monitor copies them in once, checks the copy, and passes
 * the copy to the kernel. */
#ifndef KR_SYS_NESTED_H
#define KR_SYS_NESTED_H

#include "table.h"
#include <linux/uio.h>

#define KR_IOV_MAX UIO_MAXIOV
#define KR_IOV_FEW 8

struct kr_iovec {
    u64 base, len;
};

struct kr_iovs {
    struct kr_iovec few[KR_IOV_FEW];
    struct kr_iovec *v;
    size_t n; /* room of v when it is on the heap, else 0 */
};

/* Copies in and checks n iovecs. *arg: the argument of the host call, which is the copy, or KR_BAD_PTR if the
 * kernel must report an error (too many, not readable). 0 or -ENOMEM; after 0 the caller ends with
 * kr_iovs_drop. */
long kr_iovs_in(struct kr_iovs *io, u64 ptr, u64 n, u64 *arg);
void kr_iovs_drop(struct kr_iovs *io);
/* Takes the first `done` bytes off the vectors at *v, *n of them in monitor memory, and the empty ones behind them. */
void kr_iovs_skip(u64 *v, u64 *n, u64 done);
/* Checks n iovecs in monitor memory: a bad pointer becomes KR_BAD_PTR. */
void kr_iovs_check(struct kr_iovec *v, u64 n);

/* A buffer of `size` bytes: `small` if it fits, else from the heap; NULL: no memory. */
void *kr_temp(void *small, size_t small_size, size_t size);
void kr_temp_drop(void *p, void *small, size_t size);

/* struct sock_fprog: copied in, its pointer checked. 0 or -EFAULT. */
struct kr_fprog {
    u16 len, pad[3];
    u64 filter;
};
long kr_fprog_in(struct kr_fprog *f, u64 ptr);

#endif
