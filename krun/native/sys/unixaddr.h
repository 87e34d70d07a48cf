/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of sockets. An AF_UNIX address may be a path (unix(7)): its object is found with judgement
 * (path.h). */
#ifndef KR_SYS_UNIXADDR_H
#define KR_SYS_UNIXADDR_H

#include "sys.h"

#define KR_ADDR_MAX 128 /* struct sockaddr_storage */

struct kr_addr {
    u64 ptr, len; /* for the host call: a private copy, or KR_BAD_PTR */
    int fd;       /* the object of a path, to be closed; -1 */
    int thread;   /* whether the path is relative to the monitor's procfs (kr_call_from) */
    int error;    /* -errno: the path leads nowhere; the kernel gets the root directory, which is no socket */
    char name[KR_ADDR_MAX];
};

/* Copies in the address of len bytes at ptr, for connect(2) and messages. A path becomes a path to its
 * object. */
void kr_addr_in(struct kr_task *t, u64 ptr, u64 len, struct kr_addr *x);
void kr_addr_drop(struct kr_addr *x);
/* Makes the call nr with arguments a on socket a[0]. a contains x's address already. */
long kr_addr_call(struct kr_task *t, long nr, const u64 a[6], const struct kr_addr *x);

#endif
