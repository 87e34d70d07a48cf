/* SPDX-License-Identifier: Apache-2.0
 * Addresses of sockets. One of AF_UNIX is a path (unix(7)), so it is found with judgement as any other
 * (path.h). */
#ifndef KR_SYS_UNIXADDR_H
#define KR_SYS_UNIXADDR_H

#include "sys.h"

#define KR_ADDR_MAX 128 /* struct sockaddr_storage */

struct kr_addr {
    u64 ptr, len; /* what the kernel gets: a private copy, or what it refuses itself */
    int fd;       /* the object of a path, to be closed; -1 */
    int thread;   /* the path is relative to the monitor's procfs: kr_call_from */
    int error;    /* -errno: the path leads nowhere; the kernel gets the root directory, which is no socket */
    char name[KR_ADDR_MAX];
};

/* The address of len bytes at ptr, for connect(2) and messages: a path is replaced by one to the object that
 * it names. */
void kr_addr_in(struct kr_task *t, u64 ptr, u64 len, struct kr_addr *x);
void kr_addr_drop(struct kr_addr *x);
/* The call nr with arguments a, in which x's address stands already, on socket a[0]. */
long kr_addr_call(struct kr_task *t, long nr, const u64 a[6], const struct kr_addr *x);

#endif
