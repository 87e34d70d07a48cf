/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: a call is admitted (filters, arguments), then performed. table/rows.h describes the rows.
 */
#ifndef KR_SYS_TABLE_H
#define KR_SYS_TABLE_H

#include "sys.h"
#include "../table/rows.h"

/* The values in place of a bad pointer and of a hidden descriptor. The kernel refuses both itself, in its own
 * order of checks. KR_BAD_PTR is an address in the kernel's half (EFAULT even for zero bytes); KR_BAD_FD is
 * above every possible fs.nr_open. */
#define KR_BAD_PTR 0xfffffffffffff000ULL
#define KR_BAD_FD 0x7fffffff

/* ptr if the len bytes at ptr lie in the window, else KR_BAD_PTR. */
static inline u64 kr_guest_ptr(u64 ptr, u64 len) { return kr_span_ok(ptr, len) ? ptr : KR_BAD_PTR; }

/* fd, or KR_BAD_FD if fd is hidden. */
int kr_guest_fd(u64 fd);

/* Cuts the arguments of a row to the 32 bits that the kernel declares (int: with the sign), checks them, and replaces
 * the bad ones in a[] by KR_BAD_PTR and KR_BAD_FD. Descriptors that pass stay
 * in t->named until kr_perform ends. */
void kr_check_args(struct kr_task *t, const struct kr_sys_row *row, u64 a[6]);

/* An admitted call of the payload. */
struct kr_call {
    struct kr_task *t; /* whose call it is: its memory, descriptors, registers. Who performs it may be another
                          thread where the row does not say KR_CALL_THREAD */
    const struct kr_sys_row *row;
    u64 nr;
    u64 a[6];    /* checked: kr_check_args */
    u32 verdict; /* SECCOMP_RET_*: of the filters, where they do not let it pass; else SECCOMP_RET_ALLOW */
    long ret;    /* the result of a call that is not made */
};

/* Whether the call t->nr with t->args is to be made; then *c is filled for kr_perform. The function changes
 * nothing else. 0: the caller carries out c->verdict, or returns c->ret (row NULL: no such call). */
int kr_admit(struct kr_task *t, struct kr_call *c);
/* Makes an admitted call. The value, -errno or -KR_ERESTART. */
long kr_perform(struct kr_call *c);

#endif
