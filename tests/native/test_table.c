/* SPDX-License-Identifier: Apache-2.0
 * sys/table.c and the handlers with nested pointers: whatever the payload passes, no address outside its
 * window and no hidden descriptor reaches the host. The host call is a fake that looks at what it gets.
 * Sources: table.c rows.c io.c poll.c socket.c uevent.c futex.c prctl.c file.c event.c ipc.c key.c misc.c self.c ioctl.c
 * bpf.c kr_alloc.c
 */
#include "harness.h"
#include "sys/unixaddr.h"
#include "sys/nested.h"
#include "sys/path.h"
#include "process/board.h"
#include "process/robust.h"
#include "machine/fdtab.h"
#include "filter/jail.h"
#include "process/nnp.h"
#include "machine/mm.h"
#include "filter/seccomp.h"
#include "process/signal.h"
#include "process/trace.h"
#include "process/observe.h"
#include <linux/futex.h>
#include <linux/seccomp.h>

/* ---- the parts that this test does without ---- */

/* Other owners' handlers; those of the sources above are stronger. */
#define SYS(nr, name, how, attr, local, args, note)                                                          \
    __attribute__((weak)) long sys_##name(struct kr_task *t, const u64 a[6]) { return (void)t, (void)a, 0; }
#include "table/syscalls.def"
#undef SYS

static u32 verdict = SECCOMP_RET_ALLOW;
static u64 unknown;

u32 kr_trace_on;
u64 kr_trace_enter(struct kr_task *t) { return (void)t, 0; }
void kr_vdso_other_clocks(struct kr_mm *mm) { (void)mm; }
void kr_trace_exit(struct kr_task *t, long ret, u64 started) { (void)t, (void)ret, (void)started; }
u64 kr_board_base;
long kr_load32_raw(const u32 *p) { return (long)*p; }
u64 kr_observe_begin(struct kr_task *t, u32 word) { return (void)t, (u64)word; }
void kr_observe_end(struct kr_task *t, u32 word, long ret, u64 began) {
    (void)t, (void)word, (void)ret, (void)began;
}
void kr_count_unknown(u64 nr) { unknown = nr; }
static u64 refused[2]; /* the last number, and its counter */
void kr_board_refused(u64 nr, enum kr_board_counter counter) {
    refused[0] = nr;
    refused[1] = counter;
}
long kr_path_error(long nr, const u64 a[6], int i, long err) { return (void)nr, (void)a, (void)i, err; }
long kr_path_at(struct kr_task *t, long nr, const u64 a[6], int flags_arg) {
    return (void)t, (void)flags_arg, kr_call_intr(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
void kr_addr_in(struct kr_task *t, u64 ptr, u64 len, struct kr_addr *x) {
    (void)t;
    *x = (struct kr_addr){.ptr = ptr ? kr_guest_ptr(ptr, 1) : 0, .len = len, .fd = -1};
}
void kr_addr_drop(struct kr_addr *x) { (void)x; }
long kr_addr_call(struct kr_task *t, long nr, const u64 a[6], const struct kr_addr *x) {
    return (void)t, (void)x, kr_forward(nr, a);
}
u32 kr_seccomp_check(struct kr_task *t) { return (void)t, verdict; }
/* The agent: what it says of a call, and what was served of those that it has let pass. */
static int agent_passes;
static long agent_result, agent_served;
int kr_notify(struct kr_task *t, long *ret) {
    (void)t;
    *ret = agent_result;
    return agent_passes;
}
void kr_notify_served(struct kr_task *t, long ret) {
    (void)t;
    agent_served = ret;
}
int kr_seccomp_mode(struct kr_task *t) { return (void)t, 0; }
int kr_nnp_view(struct kr_task *t) { return (void)t, 0; }
void kr_nnp_set(struct kr_task *t) { (void)t; }
static int forced;
void kr_signal_force(struct kr_task *t, int sig, int code, u64 addr, int trapno, u64 error) {
    (void)t, (void)code, (void)addr, (void)trapno;
    forced = sig * 1000 + (int)error;
}
void kr_wait_mask_end(struct kr_task *t) { t->wait_mask.active = 0; }
long kr_wait_mask_begin(struct kr_task *t, u64 ptr, u64 size, kr_sigset *host) {
    if (!ptr)
        return 1;
    if (size != 8)
        return -EINVAL;
    t->wait_mask.active = 1;
    return kr_copy_in(host, ptr, 8);
}
long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    return (void)mm, (void)addr, (void)len, (void)prot, (void)flags, (void)fd, (void)off, -ENOMEM;
}
long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len) { return (void)mm, (void)addr, (void)len, 0; }
long kr_mm_mprotect(struct kr_mm *mm, u64 addr, u64 len, u32 prot) {
    return (void)mm, (void)addr, (void)len, (void)prot, 0;
}
long kr_mm_madvise(struct kr_mm *mm, u64 addr, u64 len, int advice) {
    return (void)mm, (void)addr, (void)len, (void)advice, 0;
}
char *kr_proc_slurp(struct kr_task *t, const char *rel, size_t *size, size_t *len) {
    return (void)t, (void)rel, (void)size, (void)len, NULL;
}
long kr_mm_detach(struct kr_mm *mm, u64 addr) { return (void)mm, (void)addr, -EINVAL; }
long kr_mm_attach(struct kr_mm *mm, s32 id, u64 addr, int replace, u32 prot, u64 *len) {
    (void)mm, (void)id, (void)addr, (void)replace, (void)prot, (void)len;
    return -ENOMEM;
}

#define HIDDEN_FIRST 1000u
#define HIDDEN_LAST 1007u
int kr_fd_hidden(u64 fd) { return (u32)fd >= HIDDEN_FIRST && (u32)fd <= HIDDEN_LAST; }
int kr_fd_name(struct kr_task *t, u32 i, u64 fd) {
    CHECK(i < KR_COUNT(t->named));
    return !kr_fd_hidden(fd);
}
int kr_fd_pass(struct kr_mm *mm, u64 fd) { return (void)mm, kr_fd_hidden(fd) ? -EBADF : (int)fd; }
void kr_fd_passed(int fd) { (void)fd; }
int kr_slot_dup(struct kr_task *t, u64 fd) { return (void)t, kr_fd_hidden(fd) ? -EBADF : (int)fd; }
void kr_slot_free_slow(struct kr_task *t, int fd) { (void)t, (void)fd; }
void kr_fd_shut(long fd) { (void)fd; }
void kr_fd_made(int fd) { (void)fd; }
void kr_fd_hide_begin(const struct kr_mm *mm) { (void)mm; }
int kr_fd_hide_end(const struct kr_mm *mm, int fd, int kind, int *holder) {
    return (void)mm, (void)fd, (void)kind, (void)holder, -ENFILE;
}
void kr_fd_drop(int *holder) { (void)holder; }
long kr_fd_dup(u64 fd, int cmd, u64 least) {
    (void)cmd;
    (void)least;
    return kr_fd_hidden(fd) ? -EBADF : (long)(u32)fd;
}

long kr_cas32_raw(u32 *p, u32 old, u32 want, u32 *seen) {
    *seen = __sync_val_compare_and_swap(p, old, want);
    return 0;
}

/* ---- the fake host ---- */

static u8 *guest; /* readable and writable */
#define GUEST_SIZE (64 * KR_PAGE)

/* Addresses that stand for the monitor's: nothing of the test process lies there. */
#define TAINT_BASE KR_WINDOW_END
#define TAINT_SIZE 0x40000000000ULL

static struct {
    long nr;
    u64 a[6];
    u32 calls;
} host;
static long next_result;
static int fuzzing;

static int tainted(u64 p) {
    return p != KR_BAD_PTR && ((p >= TAINT_BASE && p < TAINT_BASE + TAINT_SIZE) || p >> 63);
}

static void bad(const char *what, u64 v) {
    printf("%s: call %ld gets %s 0x%llx\n", __FILE__, host.nr, what, (unsigned long long)v);
    if (!kr_test_failures++)
        for (int i = 0; i < 6; i++)
            printf("    argument %d: 0x%llx\n", i, (unsigned long long)host.a[i]);
}

/* A guest's pointer with its length, as it lies in a structure of the monitor. */
static void good_span(u64 p, u64 len) {
    if (p && !kr_span_ok(p, len) && p != KR_BAD_PTR)
        bad("a nested pointer", p);
}

static void good_fd(s64 fd) {
    if (kr_fd_hidden((u64)fd))
        bad("a nested descriptor", (u64)fd);
}

static int ours(u64 p) { return p >= KR_WINDOW_END && !(p >> 63); }

static void good_iovs(u64 p, u64 n) {
    const struct kr_iovec *v = (const void *)p;
    for (u64 i = 0; ours(p) && i < n; i++)
        good_span(v[i].base, v[i].len);
}

struct hdr {
    u64 name, namelen, iov, iovlen, control, controllen, flags;
};

static void good_header(const struct hdr *h, int receive) {
    good_span(h->name, 1);
    good_iovs(h->iov, h->iovlen);
    if (receive)
        good_span(h->control, h->controllen);
    for (u64 off = 0; !receive && ours(h->control) && off + 16 <= h->controllen;) {
        u64 len;
        s32 kind[2];
        memcpy(&len, (u8 *)h->control + off, 8);
        memcpy(kind, (u8 *)h->control + off + 8, 8);
        if (len < 16 || len > h->controllen - off)
            break;
        for (u64 i = 16; kind[0] == 1 && kind[1] == 1 && i + 4 <= len; i += 4) {
            s32 fd;
            memcpy(&fd, (u8 *)h->control + off + i, 4);
            good_fd(fd);
        }
        if (kind[0] == 276)
            bad("an RDS control message", len);
        off += (len + 7) & ~7ULL;
    }
}

static void good_nested(long nr, const u64 a[6]) {
    const u8 *b = (const void *)a[1];
    switch (nr) {
    case __NR_readv:
    case __NR_writev:
    case __NR_preadv:
    case __NR_pwritev:
    case __NR_preadv2:
    case __NR_pwritev2:
    case __NR_vmsplice:
        good_iovs(a[1], a[2]);
        return;
    case __NR_sendmsg:
    case __NR_recvmsg:
        if (ours(a[1]))
            good_header((const void *)b, nr == __NR_recvmsg);
        return;
    case __NR_sendmmsg:
    case __NR_recvmmsg:
        for (u64 i = 0; ours(a[1]) && i < (u32)a[2]; i++)
            good_header((const void *)(b + i * 64), nr == __NR_recvmmsg);
        return;
    case __NR_poll:
    case __NR_ppoll:
        for (u64 i = 0; ours(a[0]) && i < (u32)a[1]; i++)
            good_fd(((const s32 *)a[0])[2 * i]);
        return;
    case __NR_select:
    case __NR_pselect6:
        for (int s = 1; s < 4; s++)
            for (u64 fd = HIDDEN_FIRST; ours(a[s]) && fd <= HIDDEN_LAST && fd < a[0]; fd++)
                if (((const u64 *)a[s])[fd / 64] >> (fd % 64) & 1)
                    bad("a hidden descriptor in a set", fd);
        return;
    case 449:
        for (u64 i = 0; ours(a[0]) && i < (u32)a[1]; i++)
            good_span(((const u64 *)a[0])[3 * i + 1], 4);
        return;
    case 456:
        for (u64 i = 0; ours(a[0]) && i < 2; i++)
            good_span(((const u64 *)a[0])[3 * i + 1], 4);
        return;
    case __NR_setsockopt:
        if (ours(a[3]))
            good_span(((const u64 *)a[3])[1], *(const u16 *)a[3] * 8);
        return;
    case __NR_mq_notify:
        if (ours(a[1]) && *(const s32 *)(b + 12) == 2) {
            good_span(*(const u64 *)b, 32);
            good_fd(*(const s32 *)(b + 8));
        }
        return;
    case 463:
    case 464:
        if (ours(a[4]))
            good_span(*(const u64 *)a[4], *(const u32 *)(a[4] + 8));
        return;
    case __NR_kcmp:
        if ((u32)a[2] == 0)
            good_fd((s32)a[4]);
        if ((u32)a[2] == 0 || (u32)a[2] == 7)
            good_fd((s32)a[3]);
        for (u64 i = 0; ours(a[4]) && i < 2; i++)
            good_fd(((const s32 *)a[4])[i]);
        return;
    case __NR_move_pages:
        for (u64 i = 0; ours(a[2]) && i < a[1]; i++)
            good_span(((const u64 *)a[2])[i], 1);
        return;
    case __NR_keyctl:
        if ((u32)a[0] == 20)
            good_iovs(a[2], a[3]);
        return;
    case __NR_ioctl:
        if (!ours(a[2])) /* the guest's, or a number */
            return;
        switch (a[1] & 0xffff) {
        case 0x54d5:
        case 0x8912:
            good_span(((const u64 *)a[2])[1], 1);
            return;
        case 0x8946:
        case 0x8993:
        case 0x8994:
        case 0x89b0:
        case 0x89b1:
            good_span(((const u64 *)a[2])[2], 1);
            return;
        case 0x890b:
        case 0x890c:
            good_span(((const u64 *)a[2])[11], 1);
            return;
        case 0x6610: /* PAGEMAP_SCAN: vec */
            good_span(((const u64 *)a[2])[5], 1);
            return;
        case 0x940d:
            good_fd(*(const s64 *)a[2]);
            return;
        case 0x4c0a:
            good_fd(*(const s32 *)a[2]);
            return;
        case 0x9436:
            for (u64 i = 0; i < *(const u16 *)(a[2] + 16); i++)
                good_fd(*(const s64 *)(a[2] + 24 + 32 * i));
            return;
        }
        bad("a structure that this test does not know", a[1]);
        return;
    }
}

/* Arguments that are numbers with 64 bits for the kernel; everything else must not look like an address of
 * the monitor. */
static int may_be_any(enum kr_arg_kind k) { return k < KR_ARG_PTR && k != KR_ARG_ARG; }

static void look(long nr, const u64 a[6]) {
    const struct kr_sys_row *row = kr_sys_row((u64)nr);
    if (!row || row->service == KR_SVC_REFUSE || row->service == KR_SVC_NONE) {
        bad("a call that is refused", (u64)nr);
        return;
    }
    for (u32 i = 0; i < row->nargs; i++) {
        u32 x = row->arg[i];
        enum kr_arg_kind k = KR_ARG_KIND(x);
        if (k == KR_ARG_FD || k == KR_ARG_DFD)
            good_fd((s32)a[i]);
        /* Of an ARG only the range below the kernel's half matters: negative numbers are fine. */
        if (k == KR_ARG_ARG ? tainted(a[i]) && !(a[i] >> 63) : !may_be_any(k) && tainted(a[i]))
            bad("a pointer", a[i]);
        if ((k == KR_ARG_INV || k == KR_ARG_OUTV) && !ours(a[i]) && a[i] != KR_BAD_PTR) {
            u64 n = a[KR_ARG_LEN(x)];
            if (KR_ARG_KIND(row->arg[KR_ARG_LEN(x)]) < KR_ARG_LONG)
                n = (u32)n;
            if (n > KR_WINDOW_END || !kr_span_ok(a[i], n * KR_ARG_BYTES(x)))
                bad("a pointer with a length", a[i]);
        }
    }
    if (row->service == KR_SVC_OWN)
        good_nested(nr, a);
}

long kr_call_intr(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    host.nr = nr;
    u64 v[6] = {a, b, c, d, e, f};
    memcpy(host.a, v, sizeof v);
    host.calls++;
    if (!fuzzing)
        return next_result;
    look(nr, v);
    static const long results[] = {0, 1, 2, 7, -EINTR, -KR_ERESTART, -EAGAIN, -EFAULT};
    long r = results[kr_test_below(KR_COUNT(results))];
    if ((nr == __NR_sendmmsg || nr == __NR_recvmmsg) && r > (s32)c)
        r = (s32)c;
    return r;
}

/* ---- tests ---- */

static struct kr_task *t;

static long call(u64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    memset(&host, 0, sizeof host);
    host.nr = -1;
    t->nr = nr;
    u64 v[6] = {a, b, c, d, e, f};
    memcpy(t->args, v, sizeof v);
    return kr_syscall(t);
}

static void rows(void) {
    u32 known = 0;
    for (u32 nr = 0; nr < kr_sys_count(); nr++) {
        const struct kr_sys_row *r = kr_sys_row(nr);
        if (!r) {
            CHECK(!kr_syscall_name(nr));
            continue;
        }
        known++;
        CHECK(kr_syscall_name(nr)[0]);
        CHECK(r->nargs <= 6);
        CHECK((r->service == KR_SVC_REFUSE) == (r->err != 0));
        for (u32 i = 0; i < r->nargs; i++) {
            CHECK(r->arg[i]);
            CHECK(KR_ARG_LEN(r->arg[i]) < (int)r->nargs);
            CHECK(KR_ARG_LEN(r->arg[i]) != (int)i);
        }
    }
    CHECK(known > 370);
    CHECK_STR(kr_syscall_name(0), "read");
    CHECK_STR(kr_syscall_name(450), "set_mempolicy_home_node");
    CHECK(!kr_sys_row(~0ULL));
}

/* What reaches the host, and thus every handler, is what the kernel would act on: 32 bits where it declares 32. */
static void widths(void) {
    const u64 junk = 0x8000800100000000ULL;
    int fuzzed = fuzzing;
    fuzzing = 0;
    for (u32 nr = 0; nr < kr_sys_count(); nr++) {
        const struct kr_sys_row *r = kr_sys_row(nr);
        for (u32 i = 0; r && i < r->nargs; i++) {
            enum kr_arg_kind k = KR_ARG_KIND(r->arg[i]);
            u64 a[6] = {0};
            a[i] = junk | 0xfffffff7;
            kr_check_args(t, r, a);
            if (k == KR_ARG_FD || k == KR_ARG_DFD)
                CHECK(a[i] == KR_BAD_FD || a[i] == (u64)-9);
            else if (k < KR_ARG_UINT)
                CHECK_EQ(a[i], (u64)-9);
            else if (k < KR_ARG_LONG)
                CHECK_EQ(a[i], 0xfffffff7);
            else if (k < KR_ARG_PTR)
                CHECK_EQ(a[i], junk | 0xfffffff7);
            kr_fd_unname(t);
        }
    }
    fuzzing = fuzzed;
}

static void dispatch(void) {
    next_result = 5;
    u64 g = (u64)guest;
    CHECK_EQ(call(__NR_read, 3, g, 10, 0, 0, 0), 5);
    CHECK_EQ(host.nr, __NR_read);
    CHECK_EQ(host.a[1], g);
    call(0xffffffff00000000ULL | __NR_read, 3, g, 10, 0, 0, 0); /* only eax counts */
    CHECK_EQ(host.nr, __NR_read);
    CHECK_EQ(call(__NR_ptrace, 0, 0, 0, 0, 0, 0), -EPERM);
    CHECK(refused[0] == __NR_ptrace && refused[1] == KR_BOARDC_REFUSED);
    CHECK_EQ(host.calls, 0);
    CHECK_EQ(call(400, 0, 0, 0, 0, 0, 0), -ENOSYS);
    CHECK_EQ(unknown, 400);
    CHECK(refused[0] == 400 && refused[1] == KR_BOARDC_UNKNOWN);
    CHECK_EQ(call(0x40000000, 0, 0, 0, 0, 0, 0), -ENOSYS); /* x32 */
    CHECK_EQ(call((u64)-1, 0, 0, 0, 0, 0, 0), -ENOSYS);
    CHECK_EQ(host.calls, 0);
}

static void pointers(void) {
    u64 g = (u64)guest;
    call(__NR_read, 3, KR_WINDOW_END, 1, 0, 0, 0);
    CHECK_EQ(host.a[1], KR_BAD_PTR);
    call(__NR_read, 3, KR_WINDOW_END - 8, 8, 0, 0, 0);
    CHECK_EQ(host.a[1], KR_WINDOW_END - 8);
    call(__NR_read, 3, KR_WINDOW_END - 8, 9, 0, 0, 0);
    CHECK_EQ(host.a[1], KR_BAD_PTR);
    call(__NR_read, 3, g, ~0ULL, 0, 0, 0);
    CHECK_EQ(host.a[1], KR_BAD_PTR);
    call(__NR_semop, 3, g, 0xdead00000001ULL, 0, 0, 0); /* an int's upper half is junk */
    CHECK_EQ(host.a[1], g);
    call(458, g, g, 1ULL << 61, 0, 0, 0); /* listmount: 8 times it overflows to 0 */
    CHECK_EQ(host.a[1], KR_BAD_PTR);
    call(__NR_gettimeofday, 0, 0, 0, 0, 0, 0);
    CHECK_EQ(host.a[0], 0);
    call(__NR_epoll_ctl, 3, 2, 4, KR_WINDOW_END + 5, 0, 0); /* ignored by the kernel: not our EFAULT */
    CHECK_EQ(host.calls, 1);
    CHECK_EQ(host.a[3], KR_BAD_PTR);
}

static void descriptors(void) {
    u64 g = (u64)guest;
    call(__NR_read, HIDDEN_FIRST, g, 1, 0, 0, 0);
    CHECK_EQ(host.a[0], KR_BAD_FD);
    call(__NR_read, 0x7700000000ULL | HIDDEN_LAST, g, 1, 0, 0, 0);
    CHECK_EQ(host.a[0], KR_BAD_FD);
    call(__NR_fsync, HIDDEN_LAST + 1, 0, 0, 0, 0, 0);
    CHECK_EQ(host.a[0], HIDDEN_LAST + 1);

    s32 p[4] = {(s32)HIDDEN_FIRST, 1, 0, 1};
    memcpy(guest, p, sizeof p);
    fuzzing = 1; /* looks into the copy */
    call(__NR_poll, g, 2, 0, 0, 0, 0);
    fuzzing = 0;
    CHECK_EQ(host.nr, __NR_poll);
    CHECK(host.a[0] != g);

    memset(guest, 0, 256);
    guest[HIDDEN_FIRST / 8] = 1;
    CHECK_EQ(call(__NR_select, 1024, g, 0, 0, 0, 0), -EBADF);
    CHECK_EQ(call(__NR_select, HIDDEN_FIRST, g, 0, 0, 0, 0), 5);
    CHECK_EQ(call(__NR_fcntl, HIDDEN_FIRST, 1, 0, 0, 0, 0), 5);
    CHECK_EQ(host.a[0], KR_BAD_FD);
}

static void refusals(void) {
    CHECK_EQ(call(__NR_socket, 44, 3, 0, 0, 0, 0), -EAFNOSUPPORT);
    CHECK_EQ(call(__NR_ioctl, 1, 0xae01, 0, 0, 0, 0), -ENOTTY);     /* KVM_CREATE_VM */
    CHECK_EQ(call(__NR_ioctl, 1, 0x4020ae46, 0, 0, 0, 0), -ENOTTY); /* KVM_SET_USER_MEMORY_REGION */
    CHECK_EQ(call(__NR_ioctl, 1, 0x2285, 0, 0, 0, 0), -ENOTTY);     /* SG_IO */
    CHECK_EQ(call(__NR_ioctl, 1, 0xc0606610, (u64)guest, 0, 0, 0),
             5); /* PAGEMAP_SCAN looks like EXT4_IOC_RESIZE_FS */
    CHECK(host.a[2] != (u64)guest);
    CHECK_EQ(call(__NR_prctl, 59, 1, 0, 0, 0, 0), -EINVAL);
    CHECK_EQ(call(__NR_prctl, 4, 0, 0, 0, 0, 0), 0);
    CHECK_EQ(call(__NR_prctl, 3, 0, 0, 0, 0, 0), 0);
    CHECK_EQ(call(__NR_prctl, 4, 1, 0, 0, 0, 0), 0);
    CHECK_EQ(call(__NR_prctl, 3, 0, 0, 0, 0, 0), 1);
    CHECK_EQ(call(__NR_personality, 6, 0, 0, 0, 0, 0), -EINVAL);
    CHECK_EQ(host.calls, 0);
    /* The kernel judges the descriptor, by a level of no protocol and without the value. */
    CHECK_EQ(call(__NR_setsockopt, 3, 0, 64, (u64)guest, 96, 0), -ENOPROTOOPT);
    CHECK(host.calls == 1 && host.a[1] == 0x7fff && host.a[3] == 0);
}

static void filters(void) {
    t->seccomp_mode = 2;
    verdict = SECCOMP_RET_ERRNO | 38;
    CHECK_EQ(call(__NR_getpid, 0, 0, 0, 0, 0, 0), -38);
    CHECK_EQ(call(400, 0, 0, 0, 0, 0, 0), -38);
    verdict = SECCOMP_RET_ERRNO | 512; /* must not look like a restart */
    CHECK(call(__NR_getpid, 0, 0, 0, 0, 0, 0) != -KR_ERESTART);
    verdict = SECCOMP_RET_TRAP | 7;
    CHECK_EQ(call(__NR_getpid, 0, 0, 0, 0, 0, 0), __NR_getpid);
    CHECK_EQ(forced, 31007);
    CHECK_EQ(host.calls, 0);
    verdict = SECCOMP_RET_USER_NOTIF;
    agent_result = 77;
    CHECK_EQ(call(__NR_getpid, 0, 0, 0, 0, 0, 0), 77);
    CHECK_EQ(host.calls, 0);
    agent_passes =
        1; /* served as if the filters allowed it: its arguments are checked, a refused row refuses */
    CHECK_EQ(call(__NR_ptrace, 0, 0, 0, 0, 0, 0), -(long)kr_sys_row(__NR_ptrace)->err);
    CHECK_EQ(agent_served, -(long)kr_sys_row(__NR_ptrace)->err);
    CHECK_EQ(call(400, 0, 0, 0, 0, 0, 0), -ENOSYS);
    CHECK_EQ(host.calls, 0);
    CHECK_EQ(call(__NR_getpid, 0, 0, 0, 0, 0, 0), 5);
    CHECK_EQ(agent_served, 5);
    verdict = SECCOMP_RET_LOG;
    CHECK_EQ(call(__NR_getpid, 0, 0, 0, 0, 0, 0), 5);
    verdict = SECCOMP_RET_ALLOW;
    t->seccomp_mode = 0;
}

/* Admitting a call makes none and changes nothing of the task. */
static void admission(void) {
    struct kr_call c;
    int before = (int)host.calls;
    const u64 args[6] = {(u64)guest, KR_WINDOW_END, 16};
    t->nr = __NR_write | 0xffffffff00000000ULL;
    memcpy(t->args, args, sizeof args);
    forced = 0;
    CHECK_EQ(kr_admit(t, &c), 1);
    CHECK_EQ(c.nr, __NR_write);
    CHECK(c.t == t && c.row == kr_sys_row(__NR_write));
    CHECK_EQ(c.a[1], KR_BAD_PTR);
    CHECK(!memcmp(t->args, args, sizeof args));
    t->seccomp_mode = 2;
    verdict = SECCOMP_RET_KILL_PROCESS;
    CHECK_EQ(kr_admit(t, &c), 0);
    CHECK_EQ(c.verdict, SECCOMP_RET_KILL_PROCESS);
    verdict = SECCOMP_RET_TRAP;
    CHECK_EQ(kr_admit(t, &c), 0);
    verdict = SECCOMP_RET_ALLOW;
    t->seccomp_mode = 0;
    t->nr = 400;
    unknown = 0;
    CHECK_EQ(kr_admit(t, &c), 0);
    CHECK(!c.row && c.ret == -ENOSYS && !unknown);
    CHECK_EQ(forced, 0);
    CHECK_EQ((int)host.calls, before);
}

static long direct(kr_sys_fn *fn, u64 x, u64 y) {
    u64 a[6] = {x, y};
    return fn(t, a);
}

static u64 kernels_list(void) {
    u64 list = 1, size;
    CHECK_EQ(kr_sys3(__NR_get_robust_list, 0, &list, &size), 0);
    return list;
}

/* A thread's robust list: words of the payload are marked, an address of the monitor ends the walk. */
static void robust(void) {
    u64 g = (u64)guest, head[3] = {g + 64, 32, 0}, e1[1] = {g + 128}, e2[1] = {g};
    u32 mine =
        t->tid; /* on the stack, above the window: a word of the monitor that holds the tid by chance */
    u32 held = t->tid, other = t->tid + 1;
    memset(guest, 0, 256);
    memcpy(guest, head, sizeof head);
    memcpy(guest + 64, e1, 8);
    memcpy(guest + 64 + 32, &held, 4);
    memcpy(guest + 128, e2, 8);
    memcpy(guest + 128 + 32, &other, 4);
    t->mm->tasks = t;
    CHECK_EQ(direct(sys_set_robust_list, g, 24), 0); /* alone: the kernel has the payload's own head */
    CHECK_EQ(kernels_list(), g);
    kr_robust_exit(t);
    u32 seen;
    memcpy(&seen, guest + 96, 4);
    CHECK_EQ(seen, FUTEX_OWNER_DIED);
    memcpy(&seen, guest + 160, 4);
    CHECK_EQ(seen, other);
    u64 now = 1, size;
    CHECK_EQ(kr_sys3(__NR_get_robust_list, 0, &now, &size), 0);
    CHECK_EQ(now, 0);

    head[1] = (u64)&mine - (g + 64);
    memcpy(guest, head, sizeof head);
    CHECK_EQ(direct(sys_set_robust_list, g, 24), 0);
    kr_robust_exit(t);
    CHECK_EQ(mine, t->tid);
}

/* What the kernel would walk at a death by signal: never a list of the payload's while a process lives that
 * shares the address space. */
static void robust_relatives(void) {
    u64 g = (u64)guest, head[3] = {g + 64, 32, 0}, got[2];
    memcpy(guest, head, sizeof head);
    t->mm->tasks = t;
    t->next = NULL;
    CHECK_EQ(direct(sys_set_robust_list, g, 24), 0);
    struct kr_task child = {.mm = t->mm, .next = t};
    t->mm->tasks = &child;
    kr_robust_share(t, 1);
    u64 shadow = kernels_list();
    CHECK(shadow != g);
    CHECK_EQ(*(u64 *)shadow, shadow); /* empty */
    CHECK_EQ(direct(sys_set_robust_list, g, 24), 0);
    CHECK_EQ(*(u64 *)kernels_list(), shadow); /* the payload cannot bring it back */
    u64 a[6] = {0, g + 512, g + 520};
    CHECK_EQ(sys_get_robust_list(t, a), 0); /* and sees what it registered */
    memcpy(got, guest + 512, 16);
    CHECK(got[0] == g && got[1] == 24);
    t->mm->tasks = t;
    kr_robust_unshare(t, 1);
    CHECK_EQ(kernels_list(), g);

    struct kr_task thread = {.mm = t->mm, .next = t};
    t->mm->tasks = &thread; /* a thread: by way of the shadow */
    kr_robust_share(t, 0);
    shadow = kernels_list();
    CHECK(shadow != g && *(u64 *)shadow == g && *(s64 *)(shadow + 8) == 32);
    kr_robust_share(t, 1);
    kr_robust_share(t, 1);
    CHECK_EQ(*(u64 *)shadow, shadow);
    kr_robust_unshare(t, 1);
    CHECK_EQ(*(u64 *)shadow, shadow);
    kr_robust_unshare(t, 1);
    CHECK_EQ(*(u64 *)shadow, g);
    kr_robust_exit(t);
    CHECK_EQ(kernels_list(), 0);
    t->mm->tasks = NULL;
}

/* ---- fuzzing ---- */

static u64 random_word(void) {
    u64 g = (u64)guest + kr_test_below(GUEST_SIZE - 4096);
    switch (kr_test_below(12)) {
    case 0:
        return 0;
    case 1:
    case 2:
        return g & ~7ULL;
    case 3:
        return g;
    case 4:
    case 5:
        return TAINT_BASE + kr_test_below(TAINT_SIZE);
    case 6:
        return KR_WINDOW_END - kr_test_below(64);
    case 7:
        return HIDDEN_FIRST + kr_test_below(10);
    case 8:
        return kr_test_below(8);
    case 9:
        return kr_test_below(2000);
    case 10:
        return kr_test_random() << 32 | kr_test_below(70);
    default:
        return kr_test_below(2) ? ~0ULL - kr_test_below(200) : kr_test_random();
    }
}

static u64 random_request(void) {
    static const u32 some[] = {0x5401, 0x5413, 0x8912,     0x8946,     0x890b,     0x89b0,
                               0x8994, 0x4c0a, 0x4020940d, 0xc0189436, 0x401054d5, 0x4c00,
                               0x5421, 0x541b, 0x40049409, 0xc0606610};
    return kr_test_below(8) ? some[kr_test_below(KR_COUNT(some))] : kr_test_random();
}

static void plausible(u64 nr, u64 a[6]) {
    u64 g = (u64)guest + (kr_test_below(GUEST_SIZE / 2) & ~7ULL);
    switch (nr) {
    case __NR_ioctl:
        a[1] = random_request();
        break;
    case __NR_prctl:
        a[0] = kr_test_below(80);
        if (!kr_test_below(8))
            a[0] = kr_test_below(2) ? 0x53564d41 : 0x41555856;
        break;
    case __NR_keyctl:
        a[0] = kr_test_below(34);
        break;
    case __NR_setsockopt:
    case __NR_getsockopt:
        a[1] = kr_test_below(2) ? 1 : 263;
        a[2] = (u64[]){26, 51, 22, 2}[kr_test_below(4)];
        a[4] = nr == __NR_setsockopt && kr_test_below(2) ? 16 : a[4];
        break;
    case __NR_sendmsg: { /* control data that the kernel would read */
        u64 h[7] = {random_word(), 0, g + 512, kr_test_below(12), g + 1024, 64, 0};
        u64 c[3] = {24, 1ULL << 32 | 1, (u64)HIDDEN_FIRST << 32 | kr_test_below(1100)};
        memcpy((void *)(g + 64), h, sizeof h);
        memcpy((void *)(g + 1024), c, sizeof c);
        a[1] = g + 64;
        break;
    }
    case 463:
    case 464:
        a[5] = 16;
        break;
    case __NR_kcmp: { /* KCMP_EPOLL_TFD's slot, and KCMP_FILE */
        u32 slot[3] = {kr_test_below(1100), HIDDEN_FIRST + kr_test_below(8), 0};
        memcpy((void *)g, slot, sizeof slot);
        a[0] = a[1] = 1;
        a[2] = kr_test_below(2) ? 7 : 0;
        a[3] = HIDDEN_FIRST;
        a[4] = a[2] ? g : HIDDEN_LAST;
        break;
    }
    case __NR_mq_notify: {
        u64 e[2] = {random_word(), 2ULL << 32 | HIDDEN_FIRST};
        memcpy((void *)g, e, sizeof e);
        a[1] = g;
        break;
    }
    }
    if (kr_test_below(3) == 0) /* counts that make arrays be copied */
        a[2] = kr_test_below(20);
}

static void fuzz(void) {
    fuzzing = 1;
    u64 rounds = 300000;
    const char *n = getenv("KR_TEST_ROUNDS");
    if (n)
        rounds = strtoull(n, NULL, 0);
    for (u64 i = 0; i < rounds && !kr_test_failures; i++) {
        if (i % 8 == 0) {
            u64 *w = (u64 *)(guest + (kr_test_below(GUEST_SIZE - 2048) & ~7ULL));
            for (int k = 0; k < 256; k++)
                w[k] = random_word();
        }
        u64 nr = kr_test_below(kr_sys_count() + 2), a[6];
        if (kr_test_below(2)) {
            static const u16 hard[] = {16,  19,  20,  23,  46,  47,  54,  55,  7,   157, 202,
                                       244, 250, 270, 271, 278, 279, 299, 307, 327, 328, 449,
                                       456, 463, 464, 72,  165, 431, 310, 311, 312, 438, 440};
            nr = hard[kr_test_below(KR_COUNT(hard))];
        }
        for (int k = 0; k < 6; k++)
            a[k] = random_word();
        plausible(nr, a);
        call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    fuzzing = 0;
}

void test_main(void) {
    guest = kr_test_window(GUEST_SIZE);
    t = kr_test_task();
    rows();
    widths();
    dispatch();
    pointers();
    descriptors();
    refusals();
    filters();
    admission();
    robust();
    robust_relatives();
    fuzz();
}
