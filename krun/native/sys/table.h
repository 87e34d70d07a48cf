/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: a call is admitted (filters, arguments), then performed. What the rows say: table/rows.h.
 */
#ifndef KR_SYS_TABLE_H
#define KR_SYS_TABLE_H

#include "sys.h"
#include "../table/rows.h"

/* What a bad pointer and a hidden descriptor become, so that the kernel refuses them itself, in its own order
 * of checks: an address in the kernel half (EFAULT even for zero bytes), and a number that no descriptor can
 * have (above any sysctl fs.nr_open). */
#define KR_BAD_PTR 0xfffffffffffff000ULL
#define KR_BAD_FD 0x7fffffff

/* ptr if all its len bytes may be the payload's, else KR_BAD_PTR. */
static inline u64 kr_guest_ptr(u64 ptr, u64 len) { return kr_span_ok(ptr, len) ? ptr : KR_BAD_PTR; }

/* A payload's descriptor number, or one that is never open when it is the monitor's. */
int kr_guest_fd(u64 fd);

/* Checks the arguments of a row and replaces bad ones (as above) in a[]. */
void kr_check_args(const struct kr_sys_row *row, u64 a[6]);

/* One call of the payload's, as it was admitted. */
struct kr_call {
    struct kr_task *t; /* whose call it is: its memory, descriptors, registers. Who performs it may be another
                          thread where the row does not say KR_CALL_THREAD */
    const struct kr_sys_row *row;
    u64 nr;
    u64 a[6];    /* checked: kr_check_args */
    u32 verdict; /* SECCOMP_RET_*: of the filters, where they do not let it pass; else SECCOMP_RET_ALLOW */
    long ret;    /* the result of a call that is not made */
};

/* Whether t->nr with t->args is to be made: then *c says how. Changes nothing: a filter's verdict is for the
 * caller to carry out. 0: verdict, or ret and row (NULL: no such call), say why not. */
int kr_admit(struct kr_task *t, struct kr_call *c);
/* Makes it. The value, -errno or -KR_ERESTART. */
long kr_perform(struct kr_call *c);

#endif
