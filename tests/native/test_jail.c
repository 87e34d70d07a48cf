/* SPDX-License-Identifier: Apache-2.0
 * filter/jail.c and filter/profile.c: what the kernel's filters answer, by the evaluator of filter/evaluate.c over tables
 * and boundary values, and for real in a child. What the handlers ask of the host is compared with what the
 * jail lets through. Sources: jail.c profile.c bpf.c nnp.c seccomp.c evaluate.c boot.c ioctl.c prctl.c kr_alloc.c */
#include "harness.h"
#include "filter/above.h"
#include "sys/nested.h"
#include "sys/table.h"
#include "machine/fdtab.h"
#include "filter/jail.h"
#include "process/nnp.h"
#include "machine/layout.h"
#include "filter/profile.h"
#include "filter/seccomp.h"
#include "filter/evaluate.h"
#include "abi/boot.h"
#include "abi/notify.h"
#include <linux/audit.h>
#include <linux/kvm.h>
#include <linux/prctl.h>

#define BASE 1000u
#define EXE (BASE + 1)
#define ALLOWED SECCOMP_RET_ALLOW
#define KILLED SECCOMP_RET_KILL_PROCESS
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define CLOSED (SECCOMP_RET_ERRNO | EBADF)
#define WINDOW KR_WINDOW_END

/* ---- the parts that this test does without ---- */

#define SERVICE_FWD KR_SVC_FORWARD
#define SERVICE_OWN KR_SVC_OWN
#define SERVICE_NO(e) KR_SVC_REFUSE
#define SYS(nr, name, how, attr, local, args, note) [nr] = {.service = SERVICE_##how},
static const struct kr_sys_row rows[] = {
#include "table/syscalls.def"
};
#undef SYS

const struct kr_sys_row *kr_sys_row(u64 nr) {
    return nr < KR_COUNT(rows) && rows[nr].service != KR_SVC_NONE ? &rows[nr] : NULL;
}

u32 kr_fd_base(void) { return BASE; }
void kr_fd_drop(int *holder) { (void)holder; }
int kr_guest_fd(u64 fd) { return (int)fd; }
long kr_fprog_in(struct kr_fprog *f, u64 ptr) { return (void)f, (void)ptr, -EFAULT; }
kr_sys_fn sys_ioctl, sys_prctl;

/* The last host call of a handler: its number, and its first two arguments. */
static u64 made[3];
long kr_call_intr(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    made[0] = (u64)nr;
    made[1] = a;
    made[2] = b;
    return (void)c, (void)d, (void)e, (void)f, 0;
}

/* ---- trees of comparisons ---- */

static u32 of_nr(const struct kr_bpf *p, u32 nr) {
    const struct seccomp_data d = {.nr = (int)nr};
    return kr_bpf_run(p->f, p->n, &d);
}

/* Tables of numbers, with and without labels, short and so long that a conditional jump does not reach. */
static void trees(void) {
    static struct sock_filter room[4096];
    enum { COUNT = 600, PLACES = 12 };
    for (u32 round = 0; round < 300; round++) {
        struct kr_bpf p = {.f = room, .room = KR_COUNT(room)};
        u8 what[COUNT];
        u32 to[PLACES], label[PLACES] = {0}, verdict[PLACES], run = 1 + kr_test_below(20), labels = 0;
        for (u32 i = 0; i < PLACES; i++) {
            verdict[i] = SECCOMP_RET_ERRNO | i;
            to[i] = kr_test_below(2) ? verdict[i] : KR_BPF_TO(i);
            labels += to[i] != verdict[i];
        }
        for (u32 i = 0; i < COUNT; i++)
            what[i] = i && kr_test_below(run) ? what[i - 1] : (u8)kr_test_below(PLACES);
        kr_bpf_load(&p, 0);
        kr_bpf_numbers(&p, what, COUNT, to, label);
        for (u32 i = 0; i < PLACES; i++) {
            kr_bpf_here(&p, label[i]);
            for (u32 k = kr_test_below(2) ? 300 : 0; k && labels; k--) /* far */
                kr_bpf_put(&p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0);
            kr_bpf_return(&p, verdict[i]);
        }
        if (p.failed) { /* too many choices, or too far for the room */
            CHECK(run < 4 || p.n > p.room);
            continue;
        }
        CHECK_EQ(kr_bpf_check(p.f, p.n), 0);
        for (u32 nr = 0; nr < COUNT + 5; nr++)
            CHECK_EQ(of_nr(&p, nr), verdict[nr < COUNT ? what[nr] : 0]);
        CHECK_EQ(of_nr(&p, ~0u), verdict[0]);
    }
    for (u32 round = 0; round < 300; round++) {
        struct kr_bpf p = {.f = room, .room = KR_COUNT(room)};
        struct kr_range r[KR_BPF_RANGES];
        u32 n = kr_test_below(KR_BPF_RANGES + 1), at = kr_test_below(3), in = SECCOMP_RET_ERRNO | 1,
            out = kr_test_below(2) ? KR_BPF_ON : SECCOMP_RET_ERRNO | 2;
        for (u32 i = 0; i < n; i++) {
            r[i].first = at;
            r[i].last = at + kr_test_below(4);
            at = r[i].last + 2 + kr_test_below(3);
        }
        if (n && kr_test_below(4) == 0)
            r[n - 1].last = ~0u;
        kr_bpf_load(&p, 0);
        kr_bpf_ranges(&p, r, n, in, out);
        kr_bpf_return(&p, SECCOMP_RET_ERRNO | 2);
        CHECK_EQ(p.failed, 0);
        for (u32 a = 0; a < at + 3; a++) {
            u32 is = 0;
            for (u32 i = 0; i < n; i++)
                is |= a >= r[i].first && a <= r[i].last;
            CHECK_EQ(of_nr(&p, a), SECCOMP_RET_ERRNO | (is ? 1 : 2));
        }
    }
}

/* ---- the jail by its program ---- */

static struct sock_filter insns[4096];
static struct kr_bpf jail = {.f = insns, .room = KR_COUNT(insns)};

static u32 verdict_of(const struct kr_bpf *p, u32 arch, u32 nr, const u64 a[6]) {
    struct seccomp_data d = {.nr = (int)nr, .arch = arch};
    memcpy(d.args, a, sizeof d.args);
    return kr_bpf_run(p->f, p->n, &d);
}

#define ARGS(...) ((const u64[6]){__VA_ARGS__})
#define JAIL(nr, ...) verdict_of(&jail, AUDIT_ARCH_X86_64, nr, ARGS(__VA_ARGS__))

static void numbers(void) {
    static const u16 killed[] = {
        __NR_execve,      __NR_fork, __NR_vfork, __NR_ptrace,           __NR_seccomp,
        __NR_pidfd_getfd, __NR_bpf,  __NR_dup,   __NR_process_vm_readv, __NR_perf_event_open,
        __NR_init_module};
    static const u16 allowed[] = {__NR_read, __NR_write, __NR_futex, __NR_openat2, __NR_munmap, __NR_clone};
    for (u32 i = 0; i < KR_COUNT(killed); i++)
        CHECK_EQ(JAIL(killed[i], 0), KILLED);
    for (u32 i = 0; i < KR_COUNT(allowed); i++)
        CHECK_EQ(JAIL(allowed[i], 0), ALLOWED);
    u32 through = 0;
    for (u32 nr = 0; nr < 1000; nr++) {
        const struct kr_sys_row *row = kr_sys_row(nr);
        u32 v = JAIL(nr, 0);
        through += v != KILLED;
        int own = nr == __NR_restart_syscall || nr == __NR_pkey_alloc; /* the monitor makes them for itself */
        if ((!row || row->service == KR_SVC_REFUSE) && !own)
            CHECK_EQ(v, KILLED);
        CHECK_EQ(verdict_of(&jail, AUDIT_ARCH_X86_64, nr | 0x40000000, ARGS(0)), KILLED); /* x32 */
        CHECK_EQ(verdict_of(&jail, AUDIT_ARCH_I386, nr, ARGS(0)), KILLED);
    }
    CHECK(through > 250 && through < 330);
}

static void execution(void) {
    const u64 path = KR_EMPTY_PATH;
    CHECK_EQ(JAIL(__NR_execveat, EXE, path, 1, 1, 0x1000), ALLOWED);
    CHECK_EQ(JAIL(__NR_execveat, EXE | 1ULL << 40, path, 1, 1, 0x1000), ALLOWED); /* an int to the kernel */
    CHECK_EQ(JAIL(__NR_execveat, EXE, path + 1, 1, 1, 0x1000), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, EXE, path + (1ULL << 32), 1, 1, 0x1000), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, EXE, path & 0xffffffff, 1, 1, 0x1000), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, EXE, path, 1, 1, 0), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, EXE, path, 1, 1, 0x1100), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, EXE + 1, path, 1, 1, 0x1000), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, (u64)-100, path, 1, 1, 0x1000), KILLED);
    CHECK_EQ(JAIL(__NR_execveat, 3, 1, 1, 1, 0x11000), ALLOWED); /* only asks */
}

static void memory(void) {
    static const u64 edges[] = {0,
                                1,
                                4096,
                                0xfffff000,
                                1ULL << 32,
                                WINDOW - 4096,
                                WINDOW - 1,
                                WINDOW,
                                WINDOW + 4096,
                                KR_HOST_SYS - 4096,
                                KR_HOST_SYS,
                                KR_HOST_SYS + KR_HOST_SYS_SPREAD,
                                0x6f8000000000,
                                0x7ffffffff000,
                                1ULL << 63,
                                ~0ULL - 4095,
                                ~0ULL};
    for (u32 i = 0; i < 200000; i++) {
        u64 addr = edges[kr_test_below(KR_COUNT(edges))], len = edges[kr_test_below(KR_COUNT(edges))];
        if (kr_test_below(2))
            len = edges[kr_test_below(KR_COUNT(edges))] - addr;
        addr += kr_test_below(3) * 4096;
        len -= kr_test_below(3) * 4096;
        int inside = (unsigned __int128)addr + len <= WINDOW && addr < WINDOW;
        CHECK_EQ(JAIL(__NR_mmap, addr, len, 3, 0x32 /* MAP_FIXED */), inside ? ALLOWED : REFUSED);
        CHECK_EQ(JAIL(__NR_mremap, 4096, 4096, len, 3, addr), inside ? ALLOWED : REFUSED);
        CHECK_EQ(JAIL(__NR_mremap, addr, len, 4096, 1, 0), inside ? ALLOWED : REFUSED);
        CHECK_EQ(JAIL(__NR_mmap, addr, len, 3, 0x100022 /* MAP_FIXED_NOREPLACE */), ALLOWED);
        CHECK_EQ(JAIL(__NR_mprotect, addr, len, 3), inside || addr >= KR_HOST_SYS ? ALLOWED : REFUSED);
        CHECK_EQ(JAIL(__NR_mmap, addr, len, 3, 0x22), ALLOWED); /* a hint replaces nothing */
        CHECK_EQ(JAIL(__NR_mmap, addr, len, 7, 0x22), REFUSED);
        CHECK_EQ(JAIL(__NR_shmat, 1, addr, 0), addr >> 32 < WINDOW >> 32 ? ALLOWED : REFUSED);
    }
    CHECK_EQ(JAIL(__NR_mprotect, 4096, 4096, 3), ALLOWED);
    CHECK_EQ(JAIL(__NR_mprotect, KR_EMPTY_PATH, 4096, 3), REFUSED);
    CHECK_EQ(JAIL(__NR_mprotect, 4096, 4096, 4), REFUSED);
    CHECK_EQ(JAIL(__NR_shmat, 1, 0, 0100000), REFUSED);
    CHECK_EQ(JAIL(__NR_shmat, 1, 4096, 040000 /* SHM_REMAP */), REFUSED);
    CHECK_EQ(JAIL(__NR_personality, 0xffffffff), ALLOWED);
    CHECK_EQ(JAIL(__NR_personality, 0), ALLOWED);
    CHECK_EQ(JAIL(__NR_personality, 0x400000), REFUSED);
    CHECK_EQ(JAIL(__NR_personality, 0x200000 /* ADDR_COMPAT_LAYOUT */), REFUSED);
}

static void descriptors(void) {
    for (u32 fd = BASE - 3; fd < BASE + KR_FD_FIXED + 3; fd++) {
        int fixed = fd >= BASE && fd < BASE + KR_FD_FIXED;
        CHECK_EQ(JAIL(__NR_close, fd), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_close, fd | 7ULL << 32), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_fcntl, fd, 0, 3), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_dup3, fd, 100, 0), fixed && !(fd >= BASE + KR_FD_AT_SPARE) ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_dup3, 0, fd, 0), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_dup2, 0, fd), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_ioctl, fd, 0x5451 /* FIOCLEX */), fixed ? CLOSED : ALLOWED);
        CHECK_EQ(JAIL(__NR_ioctl, fd, KVM_RUN), ALLOWED);
        for (u32 last = fd; last < BASE + KR_FD_FIXED + 3; last++)
            CHECK_EQ(JAIL(__NR_close_range, fd, last, 0),
                     fd < BASE + KR_FD_FIXED && last >= BASE ? CLOSED : ALLOWED);
    }
    CHECK_EQ(JAIL(__NR_close_range, 0, ~0u, 0), CLOSED);
    CHECK_EQ(JAIL(__NR_close_range, 0, ~0ULL, 4), CLOSED);
}

/* Whatever sys_ioctl() asks of the host the jail lets through, and no other request. */
static void ioctls(void) {
    static const u32 upper[] = {0, 0x8004, 0xc0ff, 0x4000, 1};
    struct kr_task *t = kr_test_task();
    u32 count = 0;
    for (u32 i = 0; i < KR_COUNT(upper); i++)
        for (u32 low = 0; low < 0x10000; low++) {
            u32 request = upper[i] << 16 | low;
            const u64 a[6] = {3, request, 8};
            made[0] = 0;
            sys_ioctl(t, a);
            int served = made[0] == __NR_ioctl;
            count += (u32)served;
            if (low >> 8 != KVMIO)
                CHECK_EQ(JAIL(__NR_ioctl, 3, request), served ? ALLOWED : REFUSED);
            else
                CHECK_EQ(served, 0);
        }
    CHECK(count > 600);
    static const u32 yes[] = {(u32)KVM_RUN, (u32)KVM_CREATE_VM, (u32)KVM_SET_USER_MEMORY_REGION};
    static const u32 no[] = {(u32)KVM_SET_GUEST_DEBUG, (u32)KVM_ENABLE_CAP,     (u32)KVM_TRANSLATE,
                             (u32)KVM_GET_DIRTY_LOG,   (u32)KVM_CREATE_IRQCHIP, (u32)KVM_IRQFD,
                             (u32)KVM_CREATE_DEVICE,   (u32)KVM_SET_SIGNAL_MASK};
    for (u32 i = 0; i < KR_COUNT(yes); i++)
        CHECK_EQ(JAIL(__NR_ioctl, 3, yes[i]), ALLOWED);
    for (u32 i = 0; i < KR_COUNT(no); i++)
        CHECK_EQ(JAIL(__NR_ioctl, 3, no[i]), REFUSED);
}

static void prctls(void) {
    static const u32 odd[] = {0x53564d41, 0x41555856, 0x59616d61, 0x53564d42, ~0u, 1u << 31};
    struct kr_task *t = kr_test_task();
    u32 count = 0;
    for (u32 i = 0; i < 300 + KR_COUNT(odd); i++) {
        u32 option = i < 300 ? i : odd[i - 300];
        const u64 a[6] = {option, 0, 0, 0, 0};
        made[0] = 0;
        sys_prctl(t, a);
        int served = made[0] == __NR_prctl;
        count += (u32)served;
        if (option != PR_SET_DUMPABLE) /* the monitor's own (view/owned.c) */
            CHECK_EQ(JAIL(__NR_prctl, option), served ? ALLOWED : REFUSED);
    }
    CHECK(count > 25);
    CHECK_EQ(JAIL(__NR_prctl, PR_SET_DUMPABLE, 0), ALLOWED);
    CHECK_EQ(JAIL(__NR_prctl, PR_SET_DUMPABLE, 1), ALLOWED);
    CHECK_EQ(JAIL(__NR_prctl, PR_SET_MM, PR_SET_MM_MAP), ALLOWED);
    CHECK_EQ(JAIL(__NR_prctl, PR_SET_MM, 1), REFUSED);
    CHECK_EQ(JAIL(__NR_prctl, PR_SET_SECCOMP, 1), REFUSED);
}

/* ---- the profile ---- */

#define STMT(c, k) ((struct sock_filter){(c), 0, 0, (k)})
#define JUMP(c, k, t, f) ((struct sock_filter){(c), (t), (f), (k)})

static int notify; /* the profile has an agent */

static u32 with_profile(const struct sock_filter *f, u32 n, u32 nr, const u64 a[6]) {
    static struct sock_filter room[4096];
    struct kr_bpf p = {.f = room, .room = KR_COUNT(room)};
    CHECK_EQ(kr_profile_build(&p, f, n, notify), 0);
    CHECK_EQ(kr_bpf_check(p.f, p.n), 0);
    return verdict_of(&p, AUDIT_ARCH_X86_64, nr, a);
}

static void profile(void) {
    const struct sock_filter all = STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 7);
#define DENIED(nr, ...) with_profile(&all, 1, nr, ARGS(__VA_ARGS__))
    static const u16 needed[] = {__NR_read,     __NR_futex,   __NR_openat2, __NR_mmap, __NR_restart_syscall,
                                 __NR_execveat, __NR_seccomp, __NR_close,   452 - 13};
    static const u16 not_needed[] = {__NR_mount,  __NR_unshare, __NR_setns,  __NR_mkdir,  __NR_rmdir,
                                     __NR_clone3, __NR_bpf,     __NR_keyctl, __NR_chroot, __NR_pivot_root};
    for (u32 i = 0; i < KR_COUNT(needed); i++)
        CHECK_EQ(DENIED(needed[i], 0), ALLOWED);
    for (u32 i = 0; i < KR_COUNT(not_needed); i++)
        CHECK_EQ(DENIED(not_needed[i], 0), SECCOMP_RET_ERRNO | 7);
    for (u32 nr = 0; nr < 600; nr++) /* x32 calls and other processors' are the profile's */
        CHECK_EQ(DENIED(nr | 0x40000000, 0), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_ioctl, 3, KVM_RUN), ALLOWED);
    CHECK_EQ(DENIED(__NR_ioctl, 3, 0x5401), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_clone, 0x3d0f00), ALLOWED);
    CHECK_EQ(DENIED(__NR_clone, 17), ALLOWED);
    CHECK_EQ(DENIED(__NR_clone, 0x10000011 /* CLONE_NEWUSER */), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_clone, 0x20000 /* CLONE_NEWNS */), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_socket, 1, 1), ALLOWED);
    CHECK_EQ(DENIED(__NR_socket, 2, 1), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_personality, 0xffffffff), ALLOWED);
    CHECK_EQ(DENIED(__NR_personality, 0), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_prctl, PR_SET_NAME), ALLOWED);
    CHECK_EQ(DENIED(__NR_prctl, PR_CAPBSET_DROP), SECCOMP_RET_ERRNO | 7);

    /* What serves another call passes where the profile may allow that one, with some arguments. */
    const struct sock_filter mkdir[] = {
        STMT(BPF_LD | BPF_W | BPF_ABS, 4),  JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 5),
        STMT(BPF_LD | BPF_W | BPF_ABS, 0),  JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mkdir, 0, 3),
        STMT(BPF_LD | BPF_W | BPF_ABS, 24), JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0700, 0, 1),
        STMT(BPF_RET | BPF_K, ALLOWED),     STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 7)};
    CHECK_EQ(with_profile(mkdir, KR_COUNT(mkdir), __NR_mkdirat, ARGS(0)), ALLOWED);
    CHECK_EQ(with_profile(mkdir, KR_COUNT(mkdir), __NR_mkdir, ARGS(0, 0700)), ALLOWED);
    CHECK_EQ(with_profile(mkdir, KR_COUNT(mkdir), __NR_mkdir, ARGS(0, 0777)), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(with_profile(mkdir, KR_COUNT(mkdir), __NR_mknodat, ARGS(0)), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(DENIED(__NR_mkdirat, 0), SECCOMP_RET_ERRNO | 7);

    static const u32 actions[][2] = {{SECCOMP_RET_ALLOW, ALLOWED},
                                     {SECCOMP_RET_LOG, ALLOWED},
                                     {SECCOMP_RET_KILL_PROCESS, REFUSED},
                                     {SECCOMP_RET_KILL_THREAD, REFUSED},
                                     {SECCOMP_RET_TRAP | 3, REFUSED},
                                     {SECCOMP_RET_TRACE | 3, REFUSED},
                                     {SECCOMP_RET_USER_NOTIF, REFUSED},
                                     {0x12340000, REFUSED},
                                     {SECCOMP_RET_ERRNO | 38, SECCOMP_RET_ERRNO | 38}};
    for (u32 i = 0; i < KR_COUNT(actions); i++) {
        const struct sock_filter f = STMT(BPF_RET | BPF_K, actions[i][0]);
        CHECK_EQ(with_profile(&f, 1, __NR_mount, ARGS(0)), actions[i][1]);
    }
    /* A program may look at what it has not loaded: 0. */
    const struct sock_filter zero[] = {JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                                       STMT(BPF_RET | BPF_K, ALLOWED),
                                       STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 9)};
    CHECK_EQ(with_profile(zero, 3, __NR_mount, ARGS(0)), ALLOWED);
    /* Verdicts that are computed cannot be translated; what is too long does not fit. */
    static struct sock_filter room[4096], many[4096];
    const struct sock_filter computed = STMT(BPF_RET | BPF_A, 0);
    struct kr_bpf p = {.f = room, .room = KR_COUNT(room)};
    CHECK_EQ(kr_profile_build(&p, &computed, 1, 0), -EINVAL);
    for (u32 i = 0; i < KR_COUNT(many); i++)
        many[i] = STMT(BPF_RET | BPF_K, ALLOWED);
    p = (struct kr_bpf){.f = room, .room = KR_COUNT(room)};
    CHECK_EQ(kr_profile_build(&p, many, 3600, 0), 0);
    p = (struct kr_bpf){.f = room, .room = KR_COUNT(room)};
    CHECK_EQ(kr_profile_build(&p, many, 4096, 0), -E2BIG);
}

/* A profile with an agent: its calls, those that serve them, and the numbers of abi/notify.h are the relay's. */
static void agent(void) {
    const u64 none[6] = {0};
    const u32 ask = SECCOMP_RET_USER_NOTIF;
    struct sock_filter f[] = {STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                              JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mkdir, 4, 0),
                              JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mount, 3, 0),
                              JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_read, 2, 0),
                              JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rmdir, 2, 0),
                              STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 7),
                              STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                              STMT(BPF_RET | BPF_K, ALLOWED)};
    const u32 n = KR_COUNT(f);
    struct kr_bpf p = {.f = kr_alloc(4096 * sizeof *p.f), .room = 4096};
    notify = 1;
    CHECK_EQ(with_profile(f, n, __NR_mount, none), ask);
    CHECK_EQ(with_profile(f, n, __NR_mkdir, none), ask);
    CHECK_EQ(with_profile(f, n, __NR_mkdirat, none), ask); /* serves mkdir */
    CHECK_EQ(with_profile(f, n, __NR_mknodat, none), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(with_profile(f, n, __NR_rmdir, none), ALLOWED);
    CHECK_EQ(with_profile(f, n, __NR_read, none), ALLOWED); /* the monitor's own */
    CHECK_EQ(with_profile(f, n, KR_NOTIFY_BASE, none), ask);
    CHECK_EQ(with_profile(f, n, KR_NOTIFY_LAST, none), ask);
    CHECK_EQ(with_profile(f, n, KR_NOTIFY_BASE - 1, none), SECCOMP_RET_ERRNO | 7);
    CHECK_EQ(with_profile(f, n, KR_NOTIFY_LAST + 1, none), SECCOMP_RET_ERRNO | 7);
    f[4].k =
        __NR_mkdirat; /* allowed by itself: it passes, because the relay would know of no call that it serves */
    CHECK_EQ(with_profile(f, n, __NR_mkdirat, none), ALLOWED);
    notify = 0;
    CHECK_EQ(with_profile(f, n, __NR_mount, none), REFUSED);
    CHECK_EQ(with_profile(f, n, KR_NOTIFY_BASE, none), SECCOMP_RET_ERRNO | 7);

    kr_jail_build(&p);
    CHECK_EQ(verdict_of(&p, AUDIT_ARCH_X86_64, KR_NOTIFY_BASE, none), KILLED);
    kr_boot.flags = KR_BOOTF_NOTIFY;
    p.n = p.failed = 0;
    kr_jail_build(&p);
    CHECK_EQ(verdict_of(&p, AUDIT_ARCH_X86_64, KR_NOTIFY_BASE, none), ALLOWED);
    CHECK_EQ(verdict_of(&p, AUDIT_ARCH_X86_64, KR_NOTIFY_LAST, none), ALLOWED);
    CHECK_EQ(verdict_of(&p, AUDIT_ARCH_X86_64, KR_NOTIFY_BASE - 1, none), KILLED);
    CHECK_EQ(verdict_of(&p, AUDIT_ARCH_X86_64, KR_NOTIFY_LAST + 1, none), KILLED);
    kr_boot.flags = 0;
    kr_free(p.f, 4096 * sizeof *p.f);
}

/* A call that every filter of the payload allows whatever its arguments are (kr_seccomp_allows) passes the kernel's copy of
 * the profile, too, with any arguments. Random profiles that decide by number, and some by arguments. */
static void allowed_by_both(void) {
    u32 allowed = 0, other = 0;
    for (u32 round = 0; round < 300; round++) {
        struct sock_filter f[40];
        u32 n = 0, choices = 1 + kr_test_below(8);
        f[n++] = STMT(BPF_LD | BPF_W | BPF_ABS, 0);
        for (u32 i = 0; i < choices; i++) {
            static const u32 says[] = {ALLOWED, ALLOWED, SECCOMP_RET_LOG, SECCOMP_RET_ERRNO | 7,
                                       SECCOMP_RET_TRAP};
            static const u16 how[] = {BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET};
            u32 look = kr_test_below(4) == 0;
            f[n++] = JUMP((u16)(BPF_JMP | how[kr_test_below(4)] | BPF_K), (u32)kr_test_below(460), 0,
                          (u8)(look ? 4 : 1));
            if (look) {
                f[n++] = STMT(BPF_LD | BPF_W | BPF_ABS, 8 + 4 * (u32)kr_test_below(14));
                f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, (u32)kr_test_below(3), 0, 1);
                f[n++] = STMT(BPF_RET | BPF_K, says[kr_test_below(KR_COUNT(says))]);
            }
            f[n++] = STMT(BPF_RET | BPF_K, says[kr_test_below(KR_COUNT(says))]);
        }
        f[n++] = STMT(BPF_RET | BPF_K, round % 2 ? ALLOWED : SECCOMP_RET_ERRNO | 9);
        struct kr_task *t = kr_test_task();
        CHECK_EQ(kr_seccomp_add(t, f, n, 0), 0);
        for (u32 i = 0; i < 40; i++) {
            u32 nr = (u32)kr_test_below(460);
            u64 a[6];
            for (u32 k = 0; k < 6; k++)
                a[k] = kr_test_below(2) ? kr_test_below(3) : kr_test_random();
            if (!kr_seccomp_allows(t, nr)) {
                other++;
                continue;
            }
            allowed++;
            CHECK_EQ(with_profile(f, n, nr, a), ALLOWED);
        }
        kr_seccomp_drop(t);
    }
    CHECK(allowed > 1000 && other > 1000);
}

/* ---- for real, in a child ---- */

static long jailed(long (*fn)(void)) {
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        struct kr_task *t = kr_test_task();
        const char *why;
        kr_boot.flags = KR_BOOTF_FIRST;
        long r = kr_jail_install(t, &why);
        if (r == 0)
            r = fn();
        for (;;)
            kr_sys1(__NR_exit_group, r < 0 ? -r : r == 0 ? 0 : 255);
    }
    int status = 0;
    kr_sys4(__NR_wait4, pid, &status, 0, 0);
    return status & 0x7f ? -(long)(status & 0x7f) : status >> 8 & 0xff;
}

static long j_getpid(void) { return kr_sys0(__NR_getpid) > 0 ? 0 : 1; }
static long j_mmap(void) { return kr_sys6(__NR_mmap, 0, 4096, 3, 0x22, (u64)-1, 0) < 0; }
static long j_exec(void) { return kr_sys6(__NR_mmap, 0, 4096, 7, 0x22, (u64)-1, 0); }
static long j_fixed(void) { return kr_sys6(__NR_mmap, 0x7f0000000000, 4096, 3, 0x32, (u64)-1, 0); }
static long j_execve(void) { return kr_sys3(__NR_execve, "/bin/true", 0, 0); }
static long j_execveat(void) { return kr_sys5(__NR_execveat, EXE, "", 0, 0, 0x1000); }
static long j_ptrace(void) { return kr_sys4(__NR_ptrace, 0, 0, 0, 0); }
static long j_unknown(void) { return kr_sys0(599); }
static long j_kvm(void) { return kr_sys3(__NR_ioctl, 0, KVM_SET_GUEST_DEBUG, 0); }
static long j_kvm_ok(void) { return kr_sys3(__NR_ioctl, -1, KVM_RUN, 0); }
static long j_tty(void) { return kr_sys3(__NR_ioctl, -1, 0x5401, 0); }
static long j_close(void) { return kr_sys1(__NR_close, BASE); }
static long j_seccomp(void) { return kr_sys3(__NR_seccomp, 0, 0, 0); }
static long j_prctl(void) { return kr_sys5(__NR_prctl, PR_SET_MM, 1, 0, 0, 0); }

static long j_mkdir(void) { return kr_sys2(__NR_mkdir, "", 0700); }
static long j_openat(void) { return kr_sys4(__NR_openat, -1, "x", 0, 0); }

/* A boot block with a profile that refuses everything, or without one. */
static struct {
    struct kr_boot_header head;
    struct kr_boot_record record;
    struct sock_filter f;
} block = {.record = {KR_BOOT_SECCOMP, 0, 8}, .f = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 7}};

static void in_the_kernel(void) {
    kr_boot.block = (const u8 *)&block;
    kr_boot.block_size = sizeof block;
    CHECK_EQ(jailed(j_mkdir), 7);
    CHECK_EQ(jailed(j_openat), EBADF);
    CHECK_EQ(jailed(j_getpid), 0);
    CHECK_EQ(jailed(j_execve), -31);
    kr_boot.block_size = sizeof block.head;
    CHECK_EQ(jailed(j_mkdir), ENOENT);
    CHECK_EQ(jailed(j_getpid), 0);
    CHECK_EQ(jailed(j_mmap), 0);
    CHECK_EQ(jailed(j_exec), EPERM);
    CHECK_EQ(jailed(j_fixed), EPERM);
    CHECK_EQ(jailed(j_execve), -31); /* SIGSYS */
    CHECK_EQ(jailed(j_execveat), -31);
    CHECK_EQ(jailed(j_ptrace), -31);
    CHECK_EQ(jailed(j_unknown), -31);
    CHECK_EQ(jailed(j_kvm), EPERM);
    CHECK_EQ(jailed(j_kvm_ok), EBADF);
    CHECK_EQ(jailed(j_tty), EBADF);
    CHECK_EQ(jailed(j_close), EBADF);
    CHECK_EQ(jailed(j_seccomp), -31);
    CHECK_EQ(jailed(j_prctl), EPERM);
}

void test_main(void) {
    kr_boot.fd_exe = EXE;
    kr_jail_build(&jail);
    CHECK_EQ(jail.failed, 0);
    CHECK_EQ(kr_bpf_check(jail.f, jail.n), 0);
    CHECK(jail.n < 600); /* the kernel's time for it is a part of each start */
    trees();
    numbers();
    execution();
    memory();
    descriptors();
    ioctls();
    prctls();
    profile();
    agent();
    allowed_by_both();
    in_the_kernel();
}
