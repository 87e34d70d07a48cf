/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of syscalls.def as data. Dispatch (sys/table.c), the trace (process/trace.c), the filter
 * (filter/jail.c), the run loop and the tests use them. The data is read-only and has no relocations, so that no
 * process gets a private page of it.
 */
#ifndef KR_TABLE_ROWS_H
#define KR_TABLE_ROWS_H

#include "../lib/kr_lib.h"

/* Kinds of arguments; the head of syscalls.def says what each means. The order counts: scalars of 32 bits with a
 * sign, without a sign, scalars of 64 bits, pointers. */
enum kr_arg_kind {
    KR_ARG_NONE = 0,
    KR_ARG_INT,
    KR_ARG_PID,
    KR_ARG_SIG,
    KR_ARG_CLK,
    KR_ARG_FD,
    KR_ARG_DFD,
    KR_ARG_UINT, /* first without a sign */
    KR_ARG_ID,
    KR_ARG_NEWFD,
    KR_ARG_FLAGS,
    KR_ARG_MODE,
    KR_ARG_LONG, /* first with 64 bits */
    KR_ARG_SIZE,
    KR_ARG_HEX,
    KR_ARG_ADDR,
    KR_ARG_ARG,
    KR_ARG_PTR, /* first that must lie in the window */
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

/* An argument in a row: its kind; 1 + index of the argument that holds the count (0: none); bytes, of one element
 * if there is a count. */
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

/* How code of the guest's completes a call without an exit (local/local.h). */
enum kr_way {
    KR_WAY_NONE = 0,
    KR_WAY_FACT,    /* a number that only calls of the thread itself change */
    KR_WAY_ACTION,  /* signal actions: reads, and sets of one default action for another */
    KR_WAY_CHANGES, /* no way: the call may change what that code knows */
    KR_WAY_READ,    /* bytes of a TCP socket that the monitor has seen before */
    KR_WAY_QUEUE,   /* a send on a TCP socket, carried out at the next exit */
    KR_WAY_FILE, /* a call on the file that the last exit has opened: an answer, or carried out at the next exit */
};

struct kr_sys_row {
    u32 arg[6];
    u8 nargs;
    u8 service; /* enum kr_service */
    u8 attr;    /* KR_CALL_* */
    u8 err;     /* of a refusal */
    u8 way;     /* enum kr_way */
};

/* The row of a call, or NULL when the number is unknown. */
const struct kr_sys_row *kr_sys_row(u64 nr);
/* One above the highest known number. */
u32 kr_sys_count(void);

/* Row attributes. */
#define KR_CALL_THREAD 1 /* the result depends on which thread calls (tid, mask, credentials, ...) */
#define KR_CALL_BLOCK 2  /* may block */
#define KR_CALL_TIMED 4  /* has a timeout that counts from the call (view/ask.h) */

/* Name of a call, or NULL when the number is unknown. */
const char *kr_syscall_name(u64 nr);

#endif
