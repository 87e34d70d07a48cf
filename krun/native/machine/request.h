/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to KVM's descriptors. No state, no locks.
 */
#ifndef KR_REQUEST_H
#define KR_REQUEST_H

#include "vmm.h"

/* A signal can end a request of KVM's before it has done anything (EINTR: a lock, the start of the worker). The
 * signal itself waits for the run loop. So the request is repeated. */
static inline long ioctl_(int fd, u64 req, const void *arg) {
    long r;
    do
        r = kr_sys3(__NR_ioctl, fd, req, arg);
    while (r == -EINTR);
    return r;
}

#endif
