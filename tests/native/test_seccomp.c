/* SPDX-License-Identifier: Apache-2.0
 * filter/evaluate.c: checker and evaluator against the kernel itself (random programs, installed in a child);
 * filter/seccomp.c: chains, cache, calls. Sources: seccomp.c evaluate.c nnp.c kr_alloc.c */
#include "harness.h"
#include "filter/jail.h"
#include "process/nnp.h"
#include "machine/mm.h"
#include "filter/seccomp.h"
#include "filter/evaluate.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#define PROBE 500 /* a call that does not exist: ENOSYS unless the filter answers */
#define ERR(n) (SECCOMP_RET_ERRNO | (n))
#define STMT(c, k) ((struct sock_filter){(c), 0, 0, (k)})
#define JUMP(c, k, t, f) ((struct sock_filter){(c), (t), (f), (k)})

static const u64 probe_args[6] = {1, 0x200000003, 5, ~0ULL, 0x123456789abcdef0, 0};

/* What the kernel makes of a program: -EINVAL when it does not take it, else the errno it gives PROBE. */
static long kernel(const struct sock_filter *f, u32 n) {
    struct {
        u16 len;
        const struct sock_filter *filter;
    } prog = {(u16)n, f};
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        kr_sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        long r = kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
        if (r == 0)
            r = kr_sys6(PROBE, probe_args[0], probe_args[1], probe_args[2], probe_args[3], probe_args[4],
                        probe_args[5]);
        else
            r = r == -EINVAL ? -200 : -201;
        for (;;)
            kr_sys1(__NR_exit_group, -r);
    }
    int status = 0;
    kr_sys4(__NR_wait4, pid, &status, 0, 0);
    return (status & 0x7f)               ? -1000 - (status & 0x7f)
           : (status >> 8 & 0xff) == 200 ? -EINVAL
                                         : status >> 8 & 0xff;
}

static u32 ours(const struct sock_filter *f, u32 n) {
    struct seccomp_data d = {.nr = PROBE, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = 0};
    memcpy(d.args, probe_args, sizeof d.args);
    return kr_bpf_run(f, n, &d);
}

static const u16 codes[] = {
    BPF_LD | BPF_W | BPF_ABS,
    BPF_LD | BPF_IMM,
    BPF_LDX | BPF_IMM,
    BPF_LD | BPF_MEM,
    BPF_LDX | BPF_MEM,
    BPF_ST,
    BPF_STX,
    BPF_LD | BPF_W | BPF_LEN,
    BPF_LDX | BPF_W | BPF_LEN,
    BPF_MISC | BPF_TAX,
    BPF_MISC | BPF_TXA,
    BPF_ALU | BPF_ADD | BPF_K,
    BPF_ALU | BPF_ADD | BPF_X,
    BPF_ALU | BPF_SUB | BPF_K,
    BPF_ALU | BPF_SUB | BPF_X,
    BPF_ALU | BPF_MUL | BPF_K,
    BPF_ALU | BPF_MUL | BPF_X,
    BPF_ALU | BPF_DIV | BPF_K,
    BPF_ALU | BPF_DIV | BPF_X,
    BPF_ALU | BPF_AND | BPF_K,
    BPF_ALU | BPF_AND | BPF_X,
    BPF_ALU | BPF_OR | BPF_K,
    BPF_ALU | BPF_OR | BPF_X,
    BPF_ALU | BPF_XOR | BPF_K,
    BPF_ALU | BPF_XOR | BPF_X,
    BPF_ALU | BPF_LSH | BPF_K,
    BPF_ALU | BPF_LSH | BPF_X,
    BPF_ALU | BPF_RSH | BPF_K,
    BPF_ALU | BPF_RSH | BPF_X,
    BPF_ALU | BPF_NEG,
    BPF_JMP | BPF_JA,
    BPF_JMP | BPF_JEQ | BPF_K,
    BPF_JMP | BPF_JEQ | BPF_X,
    BPF_JMP | BPF_JGE | BPF_K,
    BPF_JMP | BPF_JGE | BPF_X,
    BPF_JMP | BPF_JGT | BPF_K,
    BPF_JMP | BPF_JGT | BPF_X,
    BPF_JMP | BPF_JSET | BPF_K,
    BPF_JMP | BPF_JSET | BPF_X,
    BPF_RET | BPF_K,
    BPF_ALU | BPF_MOD | BPF_K,
    BPF_LD | BPF_B | BPF_ABS,
    BPF_LD | BPF_W | BPF_IND,
    BPF_LDX | BPF_B | BPF_MSH,
};

static u32 constant(void) {
    switch (kr_test_below(6)) {
    case 0:
        return (u32)kr_test_below(16);
    case 1:
        return (u32)kr_test_below(17) * 4;
    case 2:
        return (u32)kr_test_below(34);
    case 3:
        return ~0u - (u32)kr_test_below(3);
    case 4:
        return 1u << kr_test_below(32);
    default:
        return (u32)kr_test_random();
    }
}

/* A random body between a fixed head (other calls are allowed) and a fixed tail (A becomes an errno below
 * 128). */
static u32 make(struct sock_filter *f, int mostly_good) {
    u32 n = 0, body = 1 + (u32)kr_test_below(20), end;
    f[n++] = STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROBE, 1, 0);
    f[n++] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    end = n + body;
    while (n < end) {
        u32 left = end - n - 1;
        struct sock_filter i =
            STMT(codes[kr_test_below(mostly_good ? KR_COUNT(codes) - 4 : KR_COUNT(codes))], constant());
        if (BPF_CLASS(i.code) == BPF_JMP) {
            i.jt = (u8)kr_test_below(left + 1 + (mostly_good ? 0 : 8));
            i.jf = (u8)kr_test_below(left + 1 + (mostly_good ? 0 : 8));
            if (i.code == (BPF_JMP | BPF_JA))
                i.k = i.jt;
        } else if (BPF_CLASS(i.code) == BPF_RET) {
            i.k = ERR(kr_test_below(126) + 1);
        } else if (mostly_good) {
            if (i.code == (BPF_LD | BPF_W | BPF_ABS))
                i.k = (u32)(kr_test_below(2) ? kr_test_below(2) : 4 + kr_test_below(12)) *
                      4; /* not the address of the code */
            if (i.code == BPF_ST || i.code == BPF_STX || i.code == (BPF_LD | BPF_MEM) ||
                i.code == (BPF_LDX | BPF_MEM))
                i.k = (u32)kr_test_below(3);
            if (BPF_CLASS(i.code) == BPF_ALU && BPF_SRC(i.code) == BPF_K)
                i.k = i.k % 31 + 1;
        } else if (i.code == (BPF_LD | BPF_W | BPF_ABS) && (i.k == 8 || i.k == 12)) {
            i.k = 16;
        }
        f[n++] = i;
    }
    f[n++] = STMT(BPF_ALU | BPF_AND | BPF_K, 0x7f);
    f[n++] = STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
    f[n++] = STMT(BPF_RET | BPF_A, 0);
    return n;
}

static void against_kernel(void) {
    struct sock_filter f[64];
    u32 good = 0, bad = 0, ran = 0;
    for (int i = 0; i < 3000; i++) {
        u32 n = make(f, i % 4 != 0);
        int check = kr_bpf_check(f, n);
        /* Most of what the checker takes is put to the kernel; of what it does not take, every fourth. */
        if (check < 0 && i % 4 && kr_test_below(4))
            continue;
        long k = kernel(f, n);
        if (k == -EINVAL) {
            bad++;
            CHECK_EQ(check, -EINVAL);
            continue;
        }
        good++;
        CHECK_EQ(check, 0);
        if (check < 0)
            continue;
        u32 r = ours(f, n);
        switch (r & SECCOMP_RET_ACTION_FULL) {
        case SECCOMP_RET_ERRNO:
            ran++;
            CHECK_EQ(k, KR_MIN(r & SECCOMP_RET_DATA, 4095) & 0xff); /* all that an exit status holds */
            break;
        case SECCOMP_RET_ALLOW:
        case SECCOMP_RET_LOG:
        case SECCOMP_RET_TRACE:
        case SECCOMP_RET_USER_NOTIF:
            CHECK_EQ(k, ENOSYS);
            break;
        default: /* kill, trap, unknown actions; a division by zero gives 0 */
            CHECK_EQ(k, -1031);
        }
        if (kr_test_failures > 5)
            break;
    }
    printf("seccomp: %u programs taken (%u run), %u refused, as by the kernel\n", good, ran, bad);
    CHECK(good > 300 && bad > 100 && ran > 200);
}

/* Any bytes: the checker decides, and what it takes ends in bounds (ASan watches). */
static void fuzz(void) {
    for (int i = 0; i < 60000; i++) {
        u32 n = 1 + (u32)kr_test_below(12);
        struct sock_filter *f = malloc(n * sizeof *f);
        for (u32 k = 0; k < n; k++) {
            f[k] = STMT(kr_test_below(8) ? codes[kr_test_below(KR_COUNT(codes))] : (u16)kr_test_random(),
                        constant());
            f[k].jt = (u8)kr_test_below(n + 2);
            f[k].jf = (u8)kr_test_below(n + 2);
        }
        if (kr_test_below(2))
            f[n - 1] = STMT(BPF_RET | BPF_A, 0);
        if (kr_bpf_check(f, n) == 0)
            ours(f, n);
        free(f);
    }
    struct sock_filter one = STMT(BPF_RET | BPF_K, 0);
    CHECK_EQ(kr_bpf_check(&one, 0), -EINVAL);
    CHECK_EQ(kr_bpf_check(&one, 4097), -EINVAL);
}

static u32 verdict(struct kr_task *t, u32 nr, u64 arg0) {
    t->nr = nr;
    t->args[0] = arg0;
    return kr_seccomp_check(t);
}

static u32 saved[8], nsaved;
static void emit(void *ctx, u16 tag, const void *data, u32 len) {
    struct sock_filter f;
    CHECK(ctx == saved && tag == 3 && len % 8 == 0);
    memcpy(&f, data, sizeof f);
    saved[nsaved++] = len / 8;
}

/* SECCOMP_RET_USER_NOTIF counts where the filter that says it has the listener; else nobody listens. */
static void agent(void) {
    const struct sock_filter says = STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    const u32 nobody = SECCOMP_RET_ERRNO | ENOSYS;
    struct kr_task *t = kr_test_task();
    CHECK_EQ(kr_seccomp_add(t, &says, 1, 0), 0);
    CHECK_EQ(verdict(t, 1, 0), nobody);
    kr_seccomp_drop(t);
    CHECK_EQ(kr_seccomp_add(t, &says, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER), 0);
    CHECK_EQ(verdict(t, 1, 0), SECCOMP_RET_USER_NOTIF);
    CHECK_EQ(kr_seccomp_allows(t, 1), 0);
    CHECK_EQ(kr_seccomp_add(t, &says, 1, 0), 0); /* of equal actions the newest filter counts */
    CHECK_EQ(verdict(t, 1, 0), nobody);
    kr_seccomp_drop(t);
}

static void chains(void) {
    struct kr_task *t = kr_test_task();
    CHECK_EQ(verdict(t, 1, 0), SECCOMP_RET_ALLOW);
    struct sock_filter a[] = {
        STMT(BPF_LD | BPF_W | BPF_ABS, 0),       JUMP(BPF_JMP | BPF_JEQ | BPF_K, 10, 0, 1),
        STMT(BPF_RET | BPF_K, ERR(1)),           JUMP(BPF_JMP | BPF_JEQ | BPF_K, 11, 0, 3),
        STMT(BPF_LD | BPF_W | BPF_ABS, 16),      JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 1),
        STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter b[] = {
        STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, 10, 0, 1),
        STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, 12, 0, 1),
        STMT(BPF_RET | BPF_K, ERR(2)),
        STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter c[] = {
        STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, 12, 0, 1),
        STMT(BPF_RET | BPF_K, ERR(3)),
        STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    CHECK_EQ(kr_seccomp_add(t, a, KR_COUNT(a), 0), 0);
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        CHECK_EQ(verdict(t, 10, 0), ERR(1));
        CHECK_EQ(verdict(t, 11, 7), SECCOMP_RET_TRAP);
        CHECK_EQ(verdict(t, 11, 8), SECCOMP_RET_ALLOW);
        CHECK_EQ(verdict(t, 12, 7), SECCOMP_RET_ALLOW);
        CHECK_EQ(verdict(t, 600, 7), SECCOMP_RET_ALLOW);
    }
    CHECK_EQ(kr_seccomp_add(t, b, KR_COUNT(b), 0), 0);
    CHECK_EQ(kr_seccomp_add(t, c, KR_COUNT(c), 0), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(verdict(t, 10, 0), SECCOMP_RET_KILL_PROCESS); /* the most restrictive */
        CHECK_EQ(verdict(t, 11, 7), SECCOMP_RET_TRAP);
        CHECK_EQ(verdict(t, 12, 7), ERR(3)); /* of equals the newest */
        CHECK_EQ(verdict(t, 13, 7), SECCOMP_RET_ALLOW);
    }
    CHECK_EQ(kr_seccomp_mode(t), 2);
    CHECK_EQ(kr_seccomp_count(t), 3);
    kr_seccomp_save(t, emit, saved);
    CHECK(nsaved == 3 && saved[0] == KR_COUNT(a) && saved[1] == KR_COUNT(b) &&
          saved[2] == KR_COUNT(c)); /* oldest first */
    CHECK_EQ(kr_seccomp_strict(t), -EINVAL);
    struct sock_filter *big = calloc(4096, sizeof *big);
    big[4095] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (u32 i = 0; i < 4095; i++)
        big[i] = STMT(BPF_LD | BPF_IMM, 0);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(kr_seccomp_add(t, big, 4096, 0), 0);
    CHECK_EQ(kr_seccomp_add(t, big, 4096, 0), -ENOMEM); /* MAX_INSNS_PER_PATH */
    free(big);
}

static void calls(void) {
    struct kr_task *t = kr_test_task();
    u8 *mem = kr_test_window(4096);
    struct sock_filter *f = (void *)(mem + 64);
    f[0] = STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *(u64 *)mem = 1;
    *(u64 *)(mem + 8) = (u64)f;
    kr_nnp_set(t);
    CHECK_EQ(kr_nnp_view(t), 1);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_SET_MODE_FILTER, 0, (u64)mem), 0);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (u64)mem), 0);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, (u64)mem),
             -EINVAL);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_SET_MODE_FILTER, 0, 0), -EFAULT);
    *(u64 *)(mem + 8) = 0x1000;
    CHECK_EQ(kr_seccomp_prctl(t, SECCOMP_MODE_FILTER, (u64)mem), -EFAULT);
    *(u64 *)mem = 0;
    CHECK_EQ(kr_seccomp_prctl(t, SECCOMP_MODE_FILTER, (u64)mem), -EINVAL);
    CHECK_EQ(kr_seccomp_prctl(t, 3, 0), -EINVAL);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_SET_MODE_STRICT, 1, 0), -EINVAL);
    u32 action = SECCOMP_RET_TRAP;
    memcpy(mem, &action, 4);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_GET_ACTION_AVAIL, 0, (u64)mem), 0);
    action = SECCOMP_RET_USER_NOTIF;
    memcpy(mem, &action, 4);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_GET_ACTION_AVAIL, 0, (u64)mem), -EOPNOTSUPP);
    CHECK_EQ(kr_seccomp_call(t, SECCOMP_GET_NOTIF_SIZES, 0, (u64)mem), 0);
    CHECK_EQ(kr_seccomp_call(t, 9, 0, 0), -EINVAL);

    struct kr_task *s = kr_test_task();
    CHECK_EQ(kr_seccomp_prctl(s, SECCOMP_MODE_STRICT, 0), 0);
    CHECK_EQ(kr_seccomp_mode(s), 1);
    CHECK_EQ(verdict(s, __NR_read, 0), SECCOMP_RET_ALLOW);
    CHECK_EQ(kr_seccomp_prctl(s, SECCOMP_MODE_STRICT, 0), 0);
    memset(mem, 0, 16);
    mem[0] = 1;
    *(u64 *)(mem + 8) = (u64)f;
    kr_nnp_set(s);
    CHECK_EQ(kr_seccomp_prctl(s, SECCOMP_MODE_FILTER, (u64)mem), -EINVAL);
}

/* Two threads: what one installs is its own, goes to what it makes, and to the other by TSYNC if that one has
 * nothing the first has not. */
static void threads(void) {
    struct kr_task *a = kr_test_task(), *b = kr_test_task(), *c = kr_test_task();
    struct sock_filter f = STMT(BPF_RET | BPF_K, ERR(1)), g = STMT(BPF_RET | BPF_K, ERR(2));
    struct kr_task *others[] = {b, c};
    for (int i = 0; i < 2; i++) {
        free(others[i]->proc);
        free(others[i]->mm);
        others[i]->proc = a->proc;
        others[i]->mm = a->mm;
    }
    a->tid = 11;
    b->tid = 12;
    a->mm->tasks = b; /* b->next is a, as kr_test_task links them; c is of no list that matters */
    CHECK_EQ(kr_seccomp_add(a, &f, 1, 0), 0);
    CHECK_EQ(verdict(a, 3, 0), ERR(1));
    CHECK_EQ(verdict(b, 3, 0), SECCOMP_RET_ALLOW);
    kr_seccomp_inherit(c, a);
    CHECK_EQ(verdict(c, 3, 0), ERR(1));
    CHECK_EQ(kr_seccomp_add(a, &g, 1, SECCOMP_FILTER_FLAG_TSYNC), 0); /* b has none: it follows */
    CHECK_EQ(kr_seccomp_count(b), 2);
    CHECK_EQ(kr_seccomp_count(c), 1);
    CHECK_EQ(verdict(b, 3, 0), ERR(2));
    CHECK_EQ(kr_seccomp_add(b, &g, 1, 0), 0);
    CHECK_EQ(kr_seccomp_add(a, &g, 1, SECCOMP_FILTER_FLAG_TSYNC), 12);
    CHECK_EQ(kr_seccomp_add(a, &g, 1, SECCOMP_FILTER_FLAG_TSYNC | (1 << 4)), -ESRCH);
    CHECK_EQ(kr_seccomp_count(a), 2);
    CHECK_EQ(kr_seccomp_add(b, &g, 1, SECCOMP_FILTER_FLAG_TSYNC), 0); /* a's are the older ones of b's */
    CHECK_EQ(kr_seccomp_count(a), 4);
    kr_seccomp_drop(b); /* a still needs every one of them */
    CHECK_EQ(verdict(a, 3, 0), ERR(2));
    CHECK_EQ(kr_seccomp_strict(b), 0);
    CHECK_EQ(kr_seccomp_add(a, &g, 1, SECCOMP_FILTER_FLAG_TSYNC), 12);
    kr_seccomp_drop(a);
    CHECK_EQ(verdict(c, 3, 0), ERR(1));
    kr_seccomp_drop(c);
    CHECK_EQ(kr_seccomp_mode(c), 0);
    a->mm->tasks = NULL;
}

/* What every argument and every instruction pointer is allowed: only this needs no evaluation. */
static void constant_verdicts(void) {
    enum { IP = 8, ARCH = 4, ARG1 = 24 };
    static const struct {
        const char *what;
        struct sock_filter f[5];
        int allows; /* call 10; all other calls are allowed */
    } row[] = {
#define ON_10(...)                                                                                           \
    {STMT(BPF_LD | BPF_W | BPF_ABS, 0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, 10, 1, 0),                           \
     STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), __VA_ARGS__}
#define LOOKS(at) ON_10(STMT(BPF_LD | BPF_W | BPF_ABS, at), STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW))
#define SAYS(v) ON_10(STMT(BPF_RET | BPF_K, v), STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW))
        {"allow", SAYS(SECCOMP_RET_ALLOW), 1},
        {"allow with data", SAYS(SECCOMP_RET_ALLOW | 7), 0}, /* seccomp_is_const_allow() */
        {"errno", SAYS(ERR(1)), 0},
        {"errno 0", SAYS(ERR(0)), 0},
        {"log", SAYS(SECCOMP_RET_LOG), 0},
        {"trace", SAYS(SECCOMP_RET_TRACE), 0},
        {"trap", SAYS(SECCOMP_RET_TRAP), 0},
        {"notify", SAYS(SECCOMP_RET_USER_NOTIF), 0},
        {"kill thread", SAYS(SECCOMP_RET_KILL_THREAD), 0},
        {"kill process", SAYS(SECCOMP_RET_KILL_PROCESS), 0},
        {"the architecture", LOOKS(ARCH), 1},
        {"the instruction pointer", LOOKS(IP), 0},
        {"its upper half", LOOKS(IP + 4), 0},
        {"an argument", LOOKS(ARG1), 0},
        {"a computed verdict", ON_10(STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW), STMT(BPF_RET | BPF_A, 0)), 0},
#undef ON_10
#undef LOOKS
#undef SAYS
    };
    for (u32 i = 0; i < KR_COUNT(row); i++) {
        struct kr_task *t = kr_test_task();
        CHECK_EQ(kr_seccomp_allows(t, 10), 1); /* no filter */
        CHECK_EQ(kr_seccomp_add(t, row[i].f, KR_COUNT(row[i].f), 0), 0);
        for (int twice = 0; twice < 2; twice++) { /* the second time from the cache */
            if (kr_seccomp_allows(t, 10) != row[i].allows)
                printf("filter: %s\n", row[i].what);
            CHECK_EQ(kr_seccomp_allows(t, 10), row[i].allows);
            CHECK_EQ(kr_seccomp_allows(t, 11), 1);
        }
        /* An older filter counts as the newest one does; a filter that comes later is not in an old answer. */
        CHECK_EQ(kr_seccomp_add(t, row[0].f, KR_COUNT(row[0].f), SECCOMP_FILTER_FLAG_LOG), 0);
        CHECK_EQ(kr_seccomp_allows(t, 10), row[i].allows);
        CHECK_EQ(kr_seccomp_add(t, row[2].f, KR_COUNT(row[2].f), 0), 0);
        CHECK_EQ(kr_seccomp_allows(t, 10), 0);
        CHECK_EQ(kr_seccomp_allows(t, 511), 1);
        CHECK_EQ(kr_seccomp_allows(t, 512), 0); /* no cached verdict */
        CHECK_EQ(kr_seccomp_allows(t, 11 | 0x40000000), 0);
        kr_seccomp_drop(t);
        CHECK_EQ(kr_seccomp_allows(t, 10), 1);
    }
    struct kr_task *s = kr_test_task();
    CHECK_EQ(kr_seccomp_strict(s), 0);
    CHECK_EQ(kr_seccomp_allows(s, __NR_read), 0); /* strict mode allows it, by evaluation */
}

void test_main(void) {
    chains();
    agent();
    constant_verdicts();
    calls();
    threads();
    fuzz();
    against_kernel();
}
