/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of syscalls.def as constant tables, and how they are looked up. No state.
 */
#include "rows.h"

#define INT KR_ARG(KR_ARG_INT, 0, 4)
#define UINT KR_ARG(KR_ARG_UINT, 0, 4)
#define PID KR_ARG(KR_ARG_PID, 0, 4)
#define ID KR_ARG(KR_ARG_ID, 0, 4)
#define SIG KR_ARG(KR_ARG_SIG, 0, 4)
#define CLK KR_ARG(KR_ARG_CLK, 0, 4)
#define NEWFD KR_ARG(KR_ARG_NEWFD, 0, 4)
#define FD KR_ARG(KR_ARG_FD, 0, 4)
#define DFD KR_ARG(KR_ARG_DFD, 0, 4)
#define FLAGS KR_ARG(KR_ARG_FLAGS, 0, 4)
#define MODE KR_ARG(KR_ARG_MODE, 0, 4)
#define LONG KR_ARG(KR_ARG_LONG, 0, 8)
#define SIZE KR_ARG(KR_ARG_SIZE, 0, 8)
#define HEX KR_ARG(KR_ARG_HEX, 0, 8)
#define ADDR KR_ARG(KR_ARG_ADDR, 0, 8)
#define ARG KR_ARG(KR_ARG_ARG, 0, 8)
#define PTR KR_ARG(KR_ARG_PTR, 0, 1)
#define STR KR_ARG(KR_ARG_STR, 0, 1)
#define PATH KR_ARG(KR_ARG_PATH, 0, 1)
#define IN(n) KR_ARG(KR_ARG_IN, 0, n)
#define OUT(n) KR_ARG(KR_ARG_OUT, 0, n)
#define IO(n) KR_ARG(KR_ARG_IO, 0, n)
#define INV(i, n) KR_ARG(KR_ARG_INV, (i) + 1, n)
#define OUTV(i, n) KR_ARG(KR_ARG_OUTV, (i) + 1, n)
#define IOVEC(i) KR_ARG(KR_ARG_IOVEC, (i) + 1, 16)
#define MSGHDR KR_ARG(KR_ARG_MSGHDR, 0, 56)
#define MMSG(i) KR_ARG(KR_ARG_MMSG, (i) + 1, 64)
#define RANGE(i) KR_ARG(KR_ARG_RANGE, (i) + 1, 1)

#define A(...) {__VA_ARGS__}, sizeof((u32[]){__VA_ARGS__}) / sizeof(u32)
#define A0 {0}, 0
#define THREAD KR_CALL_THREAD
#define BLOCK KR_CALL_BLOCK
#define BOTH (KR_CALL_THREAD | KR_CALL_BLOCK)
#define TIMED KR_CALL_TIMED

#define SERVICE_FWD KR_SVC_FORWARD
#define SERVICE_OWN KR_SVC_OWN
#define SERVICE_NO(e) KR_SVC_REFUSE
#define ERROR_FWD 0
#define ERROR_OWN 0
#define ERROR_NO(e) e

#define SYS(nr, name, how, attr, local, args, note)                                                          \
    [nr] = {args, SERVICE_##how, attr, ERROR_##how, KR_WAY_##local},
static const struct kr_sys_row rows[] = {
#include "syscalls.def"
};
#undef SYS

#define SYS(nr, name, how, attr, local, args, note) [nr] = #name,
static const char names[][24] = {
#include "syscalls.def"
};
#undef SYS

#define SYS(nr, name, how, attr, local, args, note)                                                          \
    _Static_assert(sizeof(#name) <= sizeof names[0], "name of " #name);
#include "syscalls.def"
#undef SYS

const struct kr_sys_row *kr_sys_row(u64 nr) {
    return nr < KR_COUNT(rows) && rows[nr].service != KR_SVC_NONE ? &rows[nr] : NULL;
}

u32 kr_sys_count(void) { return KR_COUNT(rows); }

const char *kr_syscall_name(u64 nr) { return kr_sys_row(nr) ? names[nr] : NULL; }
