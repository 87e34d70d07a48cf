/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rows of sys/syscalls.def say, for dispatch (sys/table.c), the trace (vmm/trace.c) and the tests.
 * Read-only data without relocations: touching it costs no private page.
 */
#ifndef KR_SYS_TABLE_H
#define KR_SYS_TABLE_H

#include "sys.h"

/* Kinds of arguments; notation and meaning: head of syscalls.def. Order matters: 32-bit scalars, 64-bit
 * scalars, pointers. */
enum kr_arg_kind {
    KR_ARG_NONE = 0,
    KR_ARG_INT,
    KR_ARG_UINT,
    KR_ARG_PID,
    KR_ARG_ID,
    KR_ARG_SIG,
    KR_ARG_CLK,
    KR_ARG_NEWFD,
    KR_ARG_FD,
    KR_ARG_DFD,
    KR_ARG_LONG, /* first with 64 bits */
    KR_ARG_SIZE,
    KR_ARG_HEX,
    KR_ARG_MODE,
    KR_ARG_ADDR,
    KR_ARG_ARG,
    KR_ARG_PTR, /* first that is checked to lie in the window */
    KR_ARG_STR,
    KR_ARG_PATH,
    KR_ARG_IN,
    KR_ARG_OUT,
    KR_ARG_IO,
    KR_ARG_INV,
    KR_ARG_OUTV,
    KR_ARG_IOVEC,
    KR_ARG_MSGHDR,
    KR_ARG_MMSG,
    KR_ARG_RANGE,
};

/* An argument in a row: kind, 1 + index of the argument that holds the count (0: none), bytes (of one element
 * where there is a count). */
#define KR_ARG(kind, len, size) ((u32)(kind) | (u32)(len) << 8 | (u32)(size) << 12)
#define KR_ARG_KIND(x) ((enum kr_arg_kind)((x)&0xff))
#define KR_ARG_LEN(x) ((int)((x) >> 8 & 0xf) - 1) /* -1: none */
#define KR_ARG_BYTES(x) ((x) >> 12)

enum kr_service {
    KR_SVC_NONE = 0, /* no such call */
    KR_SVC_FORWARD,
    KR_SVC_OWN,
    KR_SVC_REFUSE,
};

struct kr_sys_row {
    u32 arg[6];
    u8 nargs;
    u8 service; /* enum kr_service */
    u8 attr;    /* KR_CALL_* */
    u8 err;     /* of a refusal */
};

/* The row of a call, or NULL when the number is unknown. */
const struct kr_sys_row *kr_sys_row(u64 nr);
/* One above the highest known number. */
u32 kr_sys_count(void);

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
