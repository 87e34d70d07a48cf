/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: from a number and six arguments to a result. State: none; the constant tables come from
 * syscalls.def. Locks: none. Callers: any thread that serves a task.
 */
#include "memfile.h"
#include "table.h"
#include "../lib/kr_guard.h"
#include "../lib/kr_linux.h"
#include "../view/ask.h"
#include "../machine/fdtab.h"
#include "../filter/seccomp.h"
#include "../process/board.h"
#include "../machine/mm.h"
#include "../process/above.h"
#include "../process/signal.h"
#include "../process/trace.h"
#include "../process/observe.h"
#include <linux/fcntl.h>
#include <linux/seccomp.h>
#include <asm/socket.h>
#include <asm/signal.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

/* ---- the handlers ---- */

#define SKIP(nr, name)
#define DECLARE(nr, name) kr_sys_fn sys_##name;
#define DECLARE_FWD SKIP
#define DECLARE_OWN DECLARE
#define DECLARE_NO(e) SKIP
#define SYS(nr, name, how, attr, local, args, note) DECLARE_##how(nr, name)
#include "../table/syscalls.def"
#undef SYS

/* A switch instead of a table of pointers: its jump table needs no relocation. */
static long call_handler(u64 nr, struct kr_task *t, const u64 a[6]) {
#define CASE(nr, name)                                                                                       \
    case nr:                                                                                                 \
        return sys_##name(t, a);
#define CASE_FWD SKIP
#define CASE_OWN CASE
#define CASE_NO(e) SKIP
    switch (nr) {
#define SYS(nr, name, how, attr, local, args, note) CASE_##how(nr, name)
#include "../table/syscalls.def"
#undef SYS
    }
    return -ENOSYS;
}

int kr_guest_fd(u64 fd) { return kr_fd_hidden((u32)fd) ? KR_BAD_FD : (int)fd; }

/* The bytes of memory at a pointer argument of kind x; ~0 if the product overflows. */
static u64 arg_bytes(const struct kr_sys_row *row, const u64 a[6], u32 x) {
    int len = KR_ARG_LEN(x);
    if (len < 0)
        return KR_ARG_BYTES(x);
    u64 n = a[len], bytes;
    if (KR_ARG_KIND(row->arg[len]) < KR_ARG_LONG) /* a negative length is the kernel's to refuse */
        n = (u32)n;
    return __builtin_mul_overflow(n, (u64)KR_ARG_BYTES(x), &bytes) ? ~0ULL : bytes;
}

/* The value that the kernel sees of an argument of kind x: it declares most as int or unsigned, and ignores the
 * upper half of their registers. */
static u64 as_declared(u32 x, u64 v) {
    enum kr_arg_kind k = KR_ARG_KIND(x);
    return k >= KR_ARG_LONG ? v : k >= KR_ARG_UINT ? (u32)v : (u64)(s64)(s32)v;
}

void kr_check_args(struct kr_task *t, const struct kr_sys_row *row, u64 a[6]) {
    u32 names = 0;
    /* First and once: what is judged below and in the handlers is what the kernel will act on. */
    for (u32 i = 0; i < row->nargs; i++)
        a[i] = as_declared(row->arg[i], a[i]);
    for (u32 i = 0; i < row->nargs; i++) {
        u32 x = row->arg[i];
        switch (KR_ARG_KIND(x)) {
        case KR_ARG_FD:
        case KR_ARG_DFD:
            if (!kr_fd_name(t, names++, a[i]))
                a[i] = KR_BAD_FD;
            __attribute__((fallthrough));
        case KR_ARG_NEWFD:
            if (t->mm->sockets)
                kr_sockets_named(t, a[i], a);
            break;
        case KR_ARG_IOVEC: /* the count may be nonsense that the kernel answers with EINVAL: the copy decides
                            */
        case KR_ARG_MMSG:
            a[i] = kr_guest_ptr(a[i], 1);
            break;
        default:
            if (KR_ARG_KIND(x) >= KR_ARG_PTR)
                a[i] = kr_guest_ptr(a[i], arg_bytes(row, a, x));
            break;
        }
    }
}

/* ---- dispatch ---- */

/* The part of kr_admit behind the filters. */
static inline int admit_allowed(struct kr_task *t, struct kr_call *c) {
    c->verdict = SECCOMP_RET_ALLOW;
    c->row = kr_sys_row(c->nr);
    if (!c->row)
        return 0;
    if (c->row->service == KR_SVC_REFUSE) {
        c->ret = -(long)c->row->err;
        return 0;
    }
    memcpy(c->a, t->args, sizeof c->a);
    kr_check_args(t, c->row, c->a);
    return !(t->mm->sockets && KR_ARG_KIND(c->row->arg[0]) == KR_ARG_FD &&
             kr_sockets_fails(t, c->a[0], c->a, &c->ret));
}

int kr_admit(struct kr_task *t, struct kr_call *c) {
    c->t = t;
    c->nr = (u32)t->nr; /* the kernel's entry code reads eax only */
    c->row = NULL;
    c->ret = -ENOSYS;
    c->verdict = t->seccomp_mode ? kr_seccomp_check(t) : (u32)SECCOMP_RET_ALLOW;
    u32 action = c->verdict & SECCOMP_RET_ACTION_FULL;
    if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG)
        return 0;
    return admit_allowed(t, c);
}

/* Carries out the verdict of the profile's or the payload's filters in place of the call. The result of the
 * call. */
static long filtered(struct kr_task *t, u32 verdict) {
    u32 data = verdict & SECCOMP_RET_DATA;
    switch (verdict & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ERRNO: {
        long ret = -(long)KR_MIN(data, 4095);
        /* ERESTARTSYS of the kernel, which no program expects */
        return ret == -KR_ERESTART ? -EINTR : ret;
    }
    case SECCOMP_RET_TRAP:
        /* For SIGSYS, trapno and error carry si_syscall and si_errno. rax keeps the number
         * (syscall_rollback() in the kernel). */
        kr_signal_force(t, SIGSYS, SYS_SECCOMP, kr_regs(t)->rip, (int)t->nr, data);
        return (long)t->nr;
    case SECCOMP_RET_TRACE: /* nobody traces */
        return -ENOSYS;
    case SECCOMP_RET_KILL_THREAD:
        if (__atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED) > 1)
            kr_task_exit(t, SIGSYS);
        kr_die_signal(t, SIGSYS);
    default: /* SECCOMP_RET_KILL_PROCESS, and what the kernel treats like it */
        kr_die_signal(t, SIGSYS);
    }
}

/* Makes a call whose pointers all lead to the payload's memory: the kernel writes nothing in the
 * monitor's. */
static long forward(u64 nr, const u64 a[6]) {
    kr_guard_shut();
    long r = kr_forward((long)nr, a);
    kr_guard_open();
    return r;
}

/* MSG_WAITALL means nothing for a socket of datagrams. */
static int is_stream(u32 fd) {
    s32 type = 0;
    u32 size = sizeof type;
    return kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Which calls go on: the argument that is the number of bytes; 0: none. Vectors and messages: sys/io.c, sys/socket.c. */
static u32 size_argument(u64 nr, const u64 a[6]) {
    switch (nr) {
    case __NR_write:
    case __NR_sendto:
        return 2;
    case __NR_recvfrom:
        return (a[3] & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL && is_stream((u32)a[0]) ? 2 : 0;
    case __NR_sendfile:
        return 3;
    }
    return 0;
}

/* Continues a transfer that another monitor's question has cut short (view/ask.h), until it is complete or a
 * signal for the payload arrives. done: bytes so far. The bytes in all. */
static long go_on(struct kr_task *t, u64 nr, u64 a[6], long done) {
    u32 size = size_argument(nr, a);
    long n = done;
    if (!size)
        return done;
    if (nr == __NR_sendto || nr == __NR_recvfrom)
        a[4] = a[5] =
            0; /* a part is sent on connections only; an address would be the payload's (sys/unixaddr.c) */
    while ((u64)(n > 0 ? n : 0) < a[size] && kr_ask_goes_on(t, n)) {
        if (n > 0 && size == 2)
            a[1] += (u64)n;
        a[size] -= n > 0 ? (u64)n : 0;
        n = forward(nr, a);
        done += n > 0 ? n : 0;
    }
    return done;
}

long kr_perform(struct kr_call *c) {
    struct kr_task *t = c->t;
    t->was_asked = 0;
    t->began = c->row->attr & KR_CALL_TIMED ? kr_ticks() : 0;
    if (t->resumed && t->waited && c->nr != __NR_futex) /* sys_futex checks its arguments itself */
        kr_ask_adjust(t, c->nr, c->a);
    long ret = c->row->service == KR_SVC_FORWARD ? forward(c->nr, c->a) : call_handler(c->nr, t, c->a);
    if (t->was_asked && ret > 0)
        ret = go_on(t, c->nr, c->a, ret);
    if (ret == -EBADF && __atomic_load_n(&kr_memfiles, __ATOMIC_RELAXED))
        ret = kr_memfile_call(t, c->nr, c->a);
    kr_fd_unname(t);
    return ret;
}

/* The result of an admitted call that no row serves. */
static long refused(const struct kr_call *c) {
    if (!c->row)
        kr_count_unknown(c->nr);
    kr_board_refused(c->nr, c->row ? KR_BOARDC_REFUSED : KR_BOARDC_UNKNOWN);
    return c->ret;
}

/* Asks the agent, and serves the call if the agent lets it pass. */
static long notified(struct kr_task *t, struct kr_call *c) {
    long ret;
    if (!kr_notify(t, &ret))
        return ret;
    ret = admit_allowed(t, c) ? kr_perform(c) : refused(c);
    kr_notify_served(t, ret);
    return ret;
}

static long serve(struct kr_task *t) {
    struct kr_call c;
    if (kr_admit(t, &c))
        return kr_perform(&c);
    if ((c.verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF)
        return notified(t, &c);
    if (c.verdict != SECCOMP_RET_ALLOW)
        return filtered(t, c.verdict);
    return refused(&c);
}

long kr_syscall(struct kr_task *t) {
    u32 watch = kr_observe_word();
    if (!kr_trace_on && !watch)
        return serve(t);
    u64 began = watch ? kr_observe_begin(t, watch) : 0, started = kr_trace_on ? kr_trace_enter(t) : 0;
    long ret = serve(t);
    if (kr_trace_on)
        kr_trace_exit(t, ret, started);
    kr_observe_end(t, watch, ret, began);
    return ret;
}
