/* SPDX-License-Identifier: Apache-2.0
 *
 * The container's seccomp profile as a filter of the host (filter/profile.h). No state except the filter in
 * the kernel. Called once, by the first thread, before the jail.
 *
 * The monitor refuses a call of the payload that the profile refuses, so the call does not reach the kernel.
 * A call that the kernel's copy of the profile refuses is therefore not made by the monitor's code. It fails
 * with EPERM or the profile's own errno. The other actions of the profile (kill, trap, trace, log)
 * concern the payload, and the monitor has applied them.
 *
 * SECCOMP_RET_USER_NOTIF stays, if the profile has an agent: this filter has the listener (abi/notify.h). The relay
 * allows the host's call while the monitor serves a call of the payload that the agent has let pass, and refuses it
 * otherwise. So a monitor that was taken over cannot make such a call without the agent, either. The numbers of
 * abi/notify.h go to the relay, too.
 *
 * Filters that the payload adds at run time stay in the monitor, because they bind single threads, and the
 * threads of a process share the monitor's memory.
 */
#include "profile.h"
#include "jail.h"
#include "../process/main.h"
#include "../abi/boot.h"
#include "../abi/notify.h"
#include "../machine/fdtab.h"
#include "../lib/kr_linux.h"
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/kvm.h>
#include <linux/personality.h>

#define MAX_INSNS ((u32)BPF_MAXINSNS)

/* Every flag of clone(2) that makes a namespace. */
#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

/* Calls that the monitor makes for itself, or to serve most calls: exactly those, because
 * tests/unit/test_jail.py follows the sources from every handler. The jail checks their arguments. */
static const u16 needed[] = {
    /* clang-format off */
    __NR_read, __NR_write, __NR_close, __NR_fstat, __NR_poll, __NR_lseek, __NR_mmap, __NR_mprotect,
    __NR_munmap, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_pread64, __NR_mremap,
    __NR_mincore, __NR_madvise, __NR_nanosleep, __NR_getpid, __NR_connect, __NR_sendmsg, __NR_recvmsg,
    __NR_shutdown, __NR_bind, __NR_listen, __NR_getsockname, __NR_getsockopt, __NR_exit, __NR_wait4,
    __NR_kill, __NR_uname, __NR_fcntl, __NR_ftruncate, __NR_fchdir, __NR_getuid, __NR_getgid,
    __NR_geteuid, __NR_getegid, __NR_getppid, __NR_getpgrp, __NR_getresuid, __NR_getresgid, __NR_getsid,
    __NR_capget, __NR_capset, __NR_rt_sigpending, __NR_rt_sigtimedwait, __NR_rt_sigqueueinfo,
    __NR_sigaltstack, __NR_fstatfs, __NR_arch_prctl, __NR_gettid, __NR_futex, __NR_getdents64,
    __NR_restart_syscall, __NR_clock_gettime, __NR_exit_group, __NR_tgkill, __NR_openat, __NR_unlinkat,
    __NR_readlinkat, __NR_ppoll, __NR_accept4, __NR_eventfd2, __NR_dup3, __NR_pipe2,
    __NR_rt_tgsigqueueinfo, __NR_prlimit64, __NR_sched_setattr, __NR_sched_getattr, __NR_timer_create,
    __NR_timer_settime, __NR_timer_delete, __NR_seccomp,
    __NR_getrandom, __NR_memfd_create, __NR_execveat, __NR_mlock2, __NR_pkey_mprotect, __NR_pkey_alloc,
    __NR_statx, __NR_pidfd_open, __NR_set_robust_list, __NR_close_range, __NR_openat2, __NR_faccessat2,
    __NR_mseal,
    /* clang-format on */
};

/* Calls that are needed only where argument `arg`, without the bits outside `mask`, is `value`. With another
 * value the profile decides. The rows of a call stand together. */
static const struct {
    u16 nr;
    u8 arg;
    u32 mask, value;
} needed_if[] = {
    {__NR_ioctl, 1, 0xff00, KVMIO << 8}, /* the first row: let_pass */
    {__NR_clone, 0, NAMESPACES, 0},
    {__NR_socket, 0, ~0u, AF_UNIX}, /* monitors ask each other questions (view/ask.h) */
    {__NR_personality, 0, ~0u, ~0u},
    {__NR_setfsuid, 0, ~0u, ~0u}, /* only asks, as personality does (core files, sys/cred.c) */
    {__NR_setfsgid, 0, ~0u, ~0u},
    {__NR_unshare, 0, ~0u, CLONE_FILES}, /* the writer of a core file has a descriptor table of its own */
    {__NR_prctl, 0, ~0u, PR_SET_NAME},
    {__NR_prctl, 0, ~0u, PR_GET_NAME},
    {__NR_prctl, 0, ~0u, PR_SET_DUMPABLE},
    {__NR_prctl, 0, ~0u, PR_SET_MM},
    {__NR_prctl, 0, ~0u, PR_GET_NO_NEW_PRIVS},
    {__NR_prctl, 0, ~0u, PR_SET_NO_NEW_PRIVS},
    {__NR_prctl, 0, ~0u, PR_TIMER_CREATE_RESTORE_IDS},
};

/* Calls that the monitor makes to serve other calls: they pass only if the profile may allow one of those. */
static const struct {
    u16 call, by;
} served[] = {
    /* clang-format off */
    {__NR_chroot, __NR_open}, {__NR_shmat, __NR_shmctl}, {__NR_socket, __NR_setsockopt},
    {__NR_shmat, __NR_shmdt},
    {__NR_mlockall, __NR_munlock}, {__NR_munlockall, __NR_munlock}, {__NR_lsetxattr, __NR_setxattr},
    {__NR_lgetxattr, __NR_getxattr}, {__NR_llistxattr, __NR_listxattr}, {__NR_lremovexattr, __NR_removexattr},
    {__NR_io_setup, __NR_io_destroy},
    {__NR_clone, __NR_set_tid_address}, {__NR_clone3, __NR_set_tid_address},
    {__NR_execve, __NR_set_tid_address}, {__NR_execveat, __NR_set_tid_address},
    {__NR_exit, __NR_set_tid_address}, {__NR_fork, __NR_set_tid_address}, {__NR_vfork, __NR_set_tid_address},
    {__NR_mkdir, __NR_mkdirat}, {__NR_mknod, __NR_mknodat},
    {__NR_chown, __NR_fchownat}, {__NR_lchown, __NR_fchownat}, {__NR_utime, __NR_futimesat},
    {__NR_utimes, __NR_futimesat}, {__NR_lstat, __NR_newfstatat}, {__NR_statx, __NR_newfstatat},
    {__NR_link, __NR_linkat}, {__NR_symlink, __NR_symlinkat}, {__NR_chmod, __NR_fchmodat},
    {__NR_fchmodat2, __NR_fchmodat},

    {__NR_signalfd, __NR_signalfd4}, {__NR_rename, __NR_renameat2},
    {__NR_renameat, __NR_renameat2}, {__NR_pidfd_getfd, __NR_pidfd_send_signal},
    {__NR_process_madvise, __NR_pidfd_send_signal}, {__NR_bind, __NR_landlock_create_ruleset},
    {__NR_bind, __NR_landlock_add_rule}, {__NR_landlock_restrict_self, __NR_landlock_add_rule},
    {__NR_bind, __NR_landlock_restrict_self},
    {__NR_setxattr, __NR_setxattrat}, {__NR_lsetxattr, __NR_setxattrat}, {__NR_getxattr, __NR_getxattrat},
    {__NR_lgetxattr, __NR_getxattrat}, {__NR_listxattr, __NR_listxattrat}, {__NR_llistxattr, __NR_listxattrat},
    {__NR_removexattr, __NR_removexattrat}, {__NR_lremovexattr, __NR_removexattrat},
    /* clang-format on */
};

/* The verdict of the kernel's copy for a verdict of the profile. notify: the copy has a listener. */
static u32 verdict(u32 v, int notify) {
    switch (v & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
        return SECCOMP_RET_ALLOW;
    case SECCOMP_RET_ERRNO:
        return v;
    case SECCOMP_RET_USER_NOTIF:
        return notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM;
    default:
        return SECCOMP_RET_ERRNO | EPERM;
    }
}

/* What is known of the accumulator at an instruction. */
struct reached {
    u32 a;
    u8 how; /* 0: not reached */
};
enum { KNOWN = 1, UNKNOWN };

static void reach(struct reached *r, u32 a, u8 how) {
    if (!r->how)
        *r = (struct reached){a, how};
    else if (how == UNKNOWN || r->a != a)
        r->how = UNKNOWN;
}

static int holds(u16 op, u32 a, u32 k) {
    return op == BPF_JEQ ? a == k : op == BPF_JGT ? a > k : op == BPF_JGE ? a >= k : (a & k) != 0;
}

enum { ALLOWS = 1, ASKS = 2 };

/* Whether the profile allows call nr with some arguments (ALLOWS), and whether an agent is asked with some (ASKS). The
 * program has been checked, so its jumps go forward and stay inside. An instruction that the analysis does not know
 * counts as allowed. at: n elements. */
static int may_allow(const struct sock_filter *f, u32 n, int notify, struct reached *at, u32 nr) {
    int found = 0;
    memset(at, 0, n * sizeof *at);
    at[0].how = KNOWN;
    for (u32 pc = 0; pc < n; pc++) {
        u32 a = at[pc].a, k = f[pc].k;
        u8 how = at[pc].how;
        if (!how)
            continue;
        switch (BPF_CLASS(f[pc].code)) {
        case BPF_RET:
            if (verdict(k, notify) == SECCOMP_RET_ALLOW)
                found |= ALLOWS;
            else if (verdict(k, notify) == SECCOMP_RET_USER_NOTIF)
                found |= ASKS;
            continue;
        case BPF_JMP:
            if (f[pc].code == (BPF_JMP | BPF_JA)) {
                reach(&at[pc + 1 + k], a, how);
                continue;
            }
            int both = how == UNKNOWN || BPF_SRC(f[pc].code) == BPF_X, yes = holds(BPF_OP(f[pc].code), a, k);
            if (both || yes)
                reach(&at[pc + 1 + f[pc].jt], a, how);
            if (both || !yes)
                reach(&at[pc + 1 + f[pc].jf], a, how);
            continue;
        case BPF_LD:
            how = UNKNOWN;
            if (f[pc].code == (BPF_LD | BPF_W | BPF_ABS) && k <= offsetof(struct seccomp_data, arch)) {
                how = KNOWN;
                a = k == offsetof(struct seccomp_data, nr) ? nr : AUDIT_ARCH_X86_64;
            }
            break;
        case BPF_ALU:
        case BPF_MISC:
            how = UNKNOWN;
            break;
        }
        reach(&at[pc + 1], a, how);
    }
    return found;
}

/* What is done with a number: the profile decides, the call passes, the relay decides, or CONDITION + i for needed_if[i]
 * and the rows behind it for the same call. */
enum { PROFILE, PASS, ASK, CONDITION };
#define MAX_NR 512
_Static_assert(__NR_removexattrat < MAX_NR, "a table by number");

/* at: n elements. */
static void decisions(u8 what[MAX_NR], const struct sock_filter *profile, u32 n, int notify,
                      struct reached *at) {
    memset(what, PROFILE, MAX_NR);
    for (u32 i = KR_COUNT(needed_if); i-- > 1;)      /* not ioctl: let_pass */
        what[needed_if[i].nr] = (u8)(CONDITION + i); /* the first row of a call stays */
    for (u32 i = 0; i < KR_COUNT(needed); i++)
        what[needed[i]] = PASS;
    for (u32 i = 0; i < KR_COUNT(served); i++) {
        u32 by = served[i].by;
        if (what[by] == PASS)
            continue;
        int may = may_allow(profile, n, notify, at, served[i].call);
        if (may & ALLOWS)
            what[by] = PASS;
        else if (may & ASKS &&
                 what[by] != ASK) /* what the profile allows by itself, the relay does not see */
            what[by] = may_allow(profile, n, notify, at, by) & ALLOWS ? PASS : ASK;
    }
}

/* Lets the call pass if one of the rows for it allows its argument. first: the first of these rows. */
static void conditions(struct kr_bpf *p, u32 first) {
    u32 nr = needed_if[first].nr;
    for (u32 i = first; i < KR_COUNT(needed_if) && needed_if[i].nr == nr; i++) {
        if (i == first || needed_if[i - 1].mask != ~0u || needed_if[i].arg != needed_if[i - 1].arg)
            kr_bpf_load(p, KR_BPF_LOW(needed_if[i].arg));
        if (needed_if[i].mask != ~0u)
            kr_bpf_put(p, BPF_ALU | BPF_AND | BPF_K, needed_if[i].mask, 0, 0);
        kr_bpf_return_if(p, BPF_JEQ, needed_if[i].value, SECCOMP_RET_ALLOW);
    }
}

/* The beginning of the program; the profile's own follows. A is undefined then. */
static int let_pass(struct kr_bpf *p, const struct sock_filter *profile, u32 n, int notify) {
    u8 what[MAX_NR];
    u32 to[CONDITION + KR_COUNT(needed_if)] = {
        [PROFILE] = KR_BPF_TO(0), [PASS] = SECCOMP_RET_ALLOW, [ASK] = SECCOMP_RET_USER_NOTIF};
    u32 label[1 + KR_COUNT(needed_if)] = {0};
    struct reached *at = kr_alloc(n * sizeof *at);
    if (!at)
        return -ENOMEM;
    decisions(what, profile, n, notify, at);
    kr_free(at, n * sizeof *at);
    u32 end = kr_bpf_begin(p, BPF_JEQ, __NR_ioctl); /* first, because KVM_RUN is every second call */
    conditions(p, 0);
    kr_bpf_load(p, offsetof(struct seccomp_data, nr));
    kr_bpf_end(p, end);
    for (u32 i = 0; i < KR_COUNT(needed_if); i++)
        to[CONDITION + i] = KR_BPF_TO(1 + i);
    kr_bpf_numbers(p, what, MAX_NR, to, label);
    for (u32 i = 0; i < KR_COUNT(needed_if); i++) {
        if (!label[1 + i])
            continue;
        kr_bpf_here(p, label[1 + i]);
        conditions(p, i);
        kr_bpf_put(p, BPF_JMP | BPF_JA, label[0], 0, 0);
        label[0] = p->n;
    }
    kr_bpf_here(p, label[0]);
    if (notify) {
        const struct kr_range told = {KR_NOTIFY_BASE, KR_NOTIFY_LAST};
        kr_bpf_load(p, offsetof(struct seccomp_data, nr));
        kr_bpf_ranges(p, &told, 1, SECCOMP_RET_USER_NOTIF, KR_BPF_ON);
    }
    return 0;
}

int kr_profile_build(struct kr_bpf *p, const struct sock_filter *profile, u32 n, int notify) {
    kr_bpf_load(p, offsetof(struct seccomp_data, arch));
    u32 at = kr_bpf_begin(p, BPF_JEQ, AUDIT_ARCH_X86_64);
    kr_bpf_load(p, offsetof(struct seccomp_data, nr));
    int r = let_pass(p, profile, n, notify);
    kr_bpf_end(p, at);
    if (r < 0)
        return r;
    /* A is 0 where a program begins. Not by BPF_IMM: the kernel would no longer see which calls are allowed
     * whatever their arguments are (seccomp_is_const_allow()). */
    kr_bpf_put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0);
    for (u32 i = 0; i < n; i++) {
        struct sock_filter f = profile[i];
        if (f.code == (BPF_RET | BPF_A))
            return -EINVAL;
        if (f.code == (BPF_RET | BPF_K))
            f.k = verdict(f.k, notify);
        kr_bpf_put(p, f.code, f.k, f.jt, f.jf); /* its jumps are relative */
    }
    return p->failed ? -E2BIG : 0;
}

/* Passes the listener to the relay, which has the other end of the socket. 0 or -errno. */
static long pass_listener(int fd) {
    u8 byte = 0;
    struct {
        u64 base, len;
    } iov = {(u64)&byte, 1};
    struct {
        struct kr_cmsghdr head;
        int fd, pad;
    } c = {{sizeof c.head + sizeof c.fd, SOL_SOCKET, SCM_RIGHTS}, fd, 0};
    struct kr_msghdr m = {.iov = (u64)&iov, .iovlen = 1, .control = (u64)&c, .controllen = sizeof c};
    long r = kr_sys3(__NR_sendmsg, kr_boot.fd_relay, &m, MSG_NOSIGNAL);
    kr_fd_drop(&kr_boot.fd_relay);
    return r < 0 ? r : 0;
}

int kr_profile_install(const char **why) {
    size_t pos = 0;
    u32 len, notify = (kr_boot.flags & KR_BOOTF_NOTIFY) != 0, flags = 0;
    const void *profile;
    long r = 0;
    if (notify) /* of the first filter, the only one of a first program */
        flags = SECCOMP_FILTER_FLAG_NEW_LISTENER |
                (kr_boot.flags & KR_BOOTF_KILLABLE ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0);
    while (r == 0 && (profile = kr_boot_next(&kr_boot, KR_BOOT_SECCOMP, &pos, &len))) {
        struct kr_bpf p = {.f = kr_alloc(MAX_INSNS * sizeof *p.f), .room = MAX_INSNS};
        if (!p.f)
            return -ENOMEM;
        *why = "making the kernel's copy of linux.seccomp";
        r = kr_profile_build(&p, profile, len / sizeof *p.f, (int)notify);
        if (r == 0) {
            *why = "installing the kernel's copy of linux.seccomp";
            r = kr_filter_install(&p, flags);
        }
        if (r >= 0 && flags) {
            int fd = (int)r;
            *why = "passing the listener of linux.seccomp to krun's relay";
            r = pass_listener(fd);
            kr_sys1(__NR_close, fd);
            flags = 0;
        }
        kr_free(p.f, MAX_INSNS * sizeof *p.f);
    }
    return (int)r;
}
