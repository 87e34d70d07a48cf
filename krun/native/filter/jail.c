/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own seccomp filter on the host. It limits a monitor that its payload has taken over: such a
 * monitor can execute only its own file, map nothing executable, replace nothing in its own memory, close or
 * copy none of its fixed descriptors, and reach no other process's memory.
 *
 * The allowed calls follow from the table of system calls (every call that is forwarded or served), from
 * `own` below (calls of which the table does not say enough), and from `rules` on arguments. Any other call
 * kills the process, and the kernel writes it to its audit log. No source of the monitor makes such a call
 * (tests/unit/test_jail.py follows the sources), so the code that makes it is not the monitor's. A call that
 * a rule refuses fails, because some calls pass numbers of the payload on.
 *
 * The filter does not see flags that the kernel reads from memory (clone3, openat2, mount_setattr).
 *
 * State: whether the filters are installed (constant after start). Called once, by the first thread.
 */
#include "jail.h"
#include "../lib/kr_linux.h"
#include "../machine/fdtab.h"
#include "../machine/layout.h"
#include "profile.h"
#include "../abi/boot.h"
#include "../abi/notify.h"
#include "above.h"
#include "../process/process.h"
#include "../table/rows.h"
#include "../process/nnp.h"
#include <linux/audit.h>
#include <linux/seccomp.h>

#define MAX_NR 600
#define MAX_FILTER 1024

enum { KILL, ALLOW, RULE };

/* Calls that the table of system calls does not name, or names with more than the jail may allow. */
static const struct {
    u16 nr;
    u8 what;
} own[] = {
    {__NR_restart_syscall, ALLOW}, /* the kernel itself restarts a sleep by it */
    {__NR_rt_sigreturn, ALLOW},    /* end of the host signal handler */
    {__NR_arch_prctl, ALLOW},      /* %fs of a monitor that starts */
    {__NR_pkey_alloc, ALLOW},      /* lib/kr_guard.h: at the start of a monitor */
    {__NR_memfd_create, ALLOW},    /* boot block, snapshots of /proc files */
    {__NR_ioctl, RULE},
    {__NR_mmap, RULE},
    {__NR_mprotect, RULE},
    {__NR_pkey_mprotect, RULE},
    {__NR_mremap, RULE},
    {__NR_prctl, RULE},
    {__NR_shmat, RULE},
    {__NR_personality, RULE},
    {__NR_close, RULE},
    {__NR_close_range, RULE},
    {__NR_dup2, RULE},
    {__NR_dup3, RULE},
    {__NR_fcntl, RULE},
    {__NR_execveat, RULE}, /* execve of the payload: the monitor executes itself */
    {__NR_seccomp, KILL},  /* the monitor evaluates the filters of the payload */
    /* Served without the host's call of that number. */
    {__NR_brk, KILL},
    {__NR_chdir, KILL},
    {__NR_chmod, KILL},
    {__NR_chown, KILL},
    {__NR_creat, KILL},
    {__NR_dup, KILL},
    {__NR_execve, KILL},
    {__NR_fork, KILL},
    {__NR_lchown, KILL},
    {__NR_mlockall, KILL},
    {__NR_munlockall, KILL},
    {__NR_pidfd_getfd, KILL},
    {__NR_process_madvise, KILL},
    {__NR_process_vm_readv, KILL},
    {__NR_process_vm_writev, KILL},
    {__NR_signalfd, KILL},
    {__NR_vfork, KILL},
};

/* The requests to KVM: exactly those that the sources of the monitor make (tests/unit/test_jail.py). The first
 * one is by far the most frequent. */
static const u32 kvm_requests[] = {
    (u32)KVM_RUN,
    (u32)KVM_CREATE_VM,
    (u32)KVM_CREATE_VCPU,
    (u32)KVM_SET_USER_MEMORY_REGION,
    (u32)KVM_GET_XSAVE,
    (u32)KVM_SET_XSAVE,
    (u32)KVM_GET_SREGS,
    (u32)KVM_SET_CPUID2,
    (u32)KVM_SET_MSRS,
    (u32)KVM_SET_XCRS,
    (u32)KVM_GET_TSC_KHZ,
    (u32)KVM_SET_DEVICE_ATTR, /* of a vCPU: its TSC offset */
    (u32)KVM_CHECK_EXTENSION,
    (u32)KVM_GET_VCPU_MMAP_SIZE,
    (u32)KVM_GET_SUPPORTED_CPUID,
};

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define REFUSE_FD (SECCOMP_RET_ERRNO | EBADF)
#define HIGH(address) (u32)((address) >> 32)
_Static_assert((u32)KR_WINDOW_END == 0 && (u32)KR_HOST_SYS == 0, "the rules compare upper halves");

/* Refuses a call whose argument i has one of these bits. */
static void without(struct kr_bpf *p, u32 i, u32 bits) {
    kr_bpf_load(p, KR_BPF_LOW(i));
    kr_bpf_return_if(p, BPF_JSET, bits, REFUSE);
}

/* Refuses a call unless arguments i (address) and j (length) name memory in the payload's window. */
static void in_window(struct kr_bpf *p, u32 i, u32 j) { kr_bpf_below(p, i, j, HIGH(KR_WINDOW_END), REFUSE); }

/* Refuses a call if argument i is one of the first n fixed descriptors of the monitor (machine/fdtab.h), else
 * the verdict is `others`. */
static void not_fixed(struct kr_bpf *p, u32 i, u32 n, u32 others) {
    struct kr_range fixed = {kr_fd_base(), kr_fd_base() + n - 1};
    kr_bpf_load(p, KR_BPF_LOW(i));
    kr_bpf_ranges(p, &fixed, 1, REFUSE_FD, others);
}

static void rule_ioctl(struct kr_bpf *p) {
    struct kr_range r[KR_IOCTL_RANGES];
    kr_bpf_load(p, KR_BPF_LOW(1));
    kr_bpf_return_if(p, BPF_JEQ, kvm_requests[0], SECCOMP_RET_ALLOW);
    for (u32 i = 0; i < KR_COUNT(kvm_requests); i++)
        r[i] = (struct kr_range){kvm_requests[i], kvm_requests[i]};
    kr_bpf_ranges(p, r, kr_ranges_join(r, KR_COUNT(kvm_requests)), SECCOMP_RET_ALLOW, KR_BPF_ON);
    /* Other requests: the list of sys/ioctl.c, which has no request of KVM's type. They are refused on a
     * fixed descriptor, because FIOCLEX would make the next execve close it. */
    not_fixed(p, 0, KR_FD_FIXED, KR_BPF_ON);
    kr_bpf_load(p, KR_BPF_LOW(1));
    u32 at = kr_bpf_begin(p, BPF_JGT, 0xffff);
    kr_bpf_put(p, BPF_ALU | BPF_AND | BPF_K, 0xffff, 0, 0);
    kr_bpf_ranges(p, r, kr_ioctl_ranges(r, KR_COUNT(r), 1), SECCOMP_RET_ALLOW, REFUSE);
    kr_bpf_end(p, at);
    kr_bpf_ranges(p, r, kr_ioctl_ranges(r, KR_COUNT(r), 0), SECCOMP_RET_ALLOW, REFUSE);
}

/* No mapping is executable. A mapping that may replace others lies in the window. A hint and
 * MAP_FIXED_NOREPLACE replace nothing (Linux 4.17). */
static void rule_mmap(struct kr_bpf *p) {
    without(p, 2, PROT_EXEC);
    kr_bpf_load(p, KR_BPF_LOW(3));
    kr_bpf_return_unless(p, BPF_JSET, MAP_FIXED, SECCOMP_RET_ALLOW);
    in_window(p, 0, 1);
}

/* The old and the new place lie in the window. */
static void rule_mremap(struct kr_bpf *p) {
    in_window(p, 0, 1);
    kr_bpf_load(p, KR_BPF_LOW(3));
    kr_bpf_return_unless(p, BPF_JSET, MREMAP_FIXED, SECCOMP_RET_ALLOW);
    in_window(p, 4, 2);
}

/* No memory becomes executable. Nothing changes between the window and the monitor's own memory, because
 * KR_EMPTY_PATH lies there. */
static void rule_mprotect(struct kr_bpf *p) {
    without(p, 2, PROT_EXEC);
    kr_bpf_load(p, KR_BPF_HIGH(0));
    kr_bpf_return_if(p, BPF_JGE, HIGH(KR_HOST_SYS), SECCOMP_RET_ALLOW);
    in_window(p, 0, 1);
}

/* The filter does not know the length of the segment. Without SHM_REMAP the kernel refuses a segment that
 * would overlap another mapping. */
static void rule_shmat(struct kr_bpf *p) {
    without(p, 2, SHM_EXEC | SHM_REMAP);
    kr_bpf_load(p, KR_BPF_HIGH(1));
    kr_bpf_return_if(p, BPF_JGE, HIGH(KR_WINDOW_END), REFUSE);
}

/* READ_IMPLIES_EXEC would undo the rule on mmap. The other bits would move the monitor at the next execve. */
static void rule_personality(struct kr_bpf *p) {
    kr_bpf_load(p, KR_BPF_LOW(0));
    kr_bpf_return_if(p, BPF_JEQ, ~0u, SECCOMP_RET_ALLOW); /* only asks */
    kr_bpf_return_if(p, BPF_JSET, KR_PERSONA_OWN, REFUSE);
}

static void rule_prctl(struct kr_bpf *p) {
    struct kr_range r[KR_PRCTL_OPTIONS];
    u32 option[KR_PRCTL_OPTIONS], n = kr_prctl_forwarded(option, KR_COUNT(option));
    for (u32 i = 0; i < n; i++)
        r[i] = (struct kr_range){option[i], option[i]};
    kr_bpf_load(p, KR_BPF_LOW(0));
    kr_bpf_return_if(p, BPF_JEQ, PR_SET_DUMPABLE, SECCOMP_RET_ALLOW); /* view/owned.c */
    u32 at = kr_bpf_begin(p, BPF_JEQ, PR_SET_MM);
    kr_bpf_load(p, KR_BPF_LOW(1));
    kr_bpf_return_if(p, BPF_JEQ, PR_SET_MM_MAP, SECCOMP_RET_ALLOW);
    kr_bpf_return(p, REFUSE);
    kr_bpf_end(p, at);
    kr_bpf_ranges(p, r, kr_ranges_join(r, n), SECCOMP_RET_ALLOW, REFUSE);
}

/* Only the monitor's own file is executed, by its number and by an empty path in memory that nobody can
 * write. AT_EXECVE_CHECK executes nothing; a kernel without the flag refuses it. */
static void rule_execveat(struct kr_bpf *p) {
    kr_bpf_load(p, KR_BPF_LOW(4));
    kr_bpf_return_if(p, BPF_JSET, AT_EXECVE_CHECK, SECCOMP_RET_ALLOW);
    kr_bpf_return_unless(p, BPF_JEQ, AT_EMPTY_PATH, SECCOMP_RET_KILL_PROCESS);
    kr_bpf_load(p, KR_BPF_LOW(0));
    kr_bpf_return_unless(p, BPF_JEQ, (u32)kr_boot.fd_exe, SECCOMP_RET_KILL_PROCESS);
    kr_bpf_load(p, KR_BPF_LOW(1));
    kr_bpf_return_unless(p, BPF_JEQ, (u32)KR_EMPTY_PATH, SECCOMP_RET_KILL_PROCESS);
    kr_bpf_load(p, KR_BPF_HIGH(1));
    kr_bpf_return_unless(p, BPF_JEQ, HIGH(KR_EMPTY_PATH), SECCOMP_RET_KILL_PROCESS);
}

/* close and fcntl never name a fixed descriptor of the monitor. */
static void rule_own_fd(struct kr_bpf *p) { not_fixed(p, 0, KR_FD_FIXED, SECCOMP_RET_ALLOW); }

/* No fixed descriptor is replaced, and only the placeholder is copied, because the slots are copies of it. */
static void rule_dup3(struct kr_bpf *p) {
    not_fixed(p, 0, KR_FD_AT_SPARE, KR_BPF_ON);
    not_fixed(p, 1, KR_FD_FIXED, SECCOMP_RET_ALLOW);
}

static void rule_close_range(struct kr_bpf *p) {
    kr_bpf_load(p, KR_BPF_LOW(0)); /* the range begins behind the fixed descriptors */
    kr_bpf_return_if(p, BPF_JGE, kr_fd_base() + KR_FD_FIXED, SECCOMP_RET_ALLOW);
    kr_bpf_load(p, KR_BPF_LOW(1)); /* the range ends before the fixed descriptors */
    kr_bpf_return_if(p, BPF_JGE, kr_fd_base(), REFUSE_FD);
}

/* The rules on arguments. A body that does not return allows the call. The rule of the first row is asked before
 * all others: KVM_RUN is every second call. */
static const struct {
    u16 nr;
    void (*body)(struct kr_bpf *p);
} rules[] = {
    {__NR_ioctl, rule_ioctl},       {__NR_close, rule_own_fd},
    {__NR_mmap, rule_mmap},         {__NR_fcntl, rule_own_fd},
    {__NR_mprotect, rule_mprotect}, {__NR_mremap, rule_mremap},
    {__NR_dup3, rule_dup3},         {__NR_dup2, rule_dup3},
    {__NR_prctl, rule_prctl},       {__NR_close_range, rule_close_range},
    {__NR_execveat, rule_execveat}, {__NR_pkey_mprotect, rule_mprotect},
    {__NR_shmat, rule_shmat},       {__NR_personality, rule_personality},
};

/* What is done with a call whatever its arguments are: ALLOW or KILL for each number. */
static void decisions(u8 what[MAX_NR]) {
    memset(what, KILL, MAX_NR);
    for (u32 nr = 0; nr < MAX_NR; nr++) {
        const struct kr_sys_row *row = kr_sys_row(nr);
        if (row && row->service != KR_SVC_REFUSE)
            what[nr] = ALLOW;
    }
    for (u32 i = 0; i < KR_COUNT(own); i++)
        what[own[i].nr] = own[i].what == ALLOW ? ALLOW : KILL;
}

void kr_jail_build(struct kr_bpf *p) {
    u8 what[MAX_NR];
    u32 to[RULE + KR_COUNT(rules)] = {[KILL] = SECCOMP_RET_KILL_PROCESS, [ALLOW] = SECCOMP_RET_ALLOW};
    u32 label[KR_COUNT(rules)] = {0};
    kr_bpf_load(p, offsetof(struct seccomp_data, arch));
    kr_bpf_return_unless(p, BPF_JEQ, AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
    kr_bpf_load(p, offsetof(struct seccomp_data, nr));
    u32 at = kr_bpf_begin(p, BPF_JEQ, rules[0].nr);
    rules[0].body(p);
    kr_bpf_return(p, SECCOMP_RET_ALLOW);
    kr_bpf_end(p, at);
    if (kr_boot.flags & KR_BOOTF_NOTIFY) { /* the profile's filter gives these numbers to the relay */
        const struct kr_range told = {KR_NOTIFY_BASE, KR_NOTIFY_LAST};
        kr_bpf_ranges(p, &told, 1, SECCOMP_RET_ALLOW, KR_BPF_ON);
    }
    decisions(what);
    for (u32 i = 1; i < KR_COUNT(rules); i++) {
        what[rules[i].nr] = (u8)(RULE + i);
        to[RULE + i] = KR_BPF_TO(i);
    }
    kr_bpf_numbers(p, what, MAX_NR, to, label);
    for (u32 i = 1; i < KR_COUNT(rules); i++) {
        kr_bpf_here(p, label[i]);
        rules[i].body(p);
        kr_bpf_return(p, SECCOMP_RET_ALLOW);
    }
}

long kr_filter_install(struct kr_bpf *p, u32 flags) {
    struct {
        u16 len;
        u16 pad[3];
        struct sock_filter *filter;
    } prog = {.len = (u16)p->n, .filter = p->f};
    if (p->failed)
        return -E2BIG;
    /* Without SPEC_ALLOW old kernels would turn on costly speculation controls for the whole thread. */
    return kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW | flags, &prog);
}

/* Whether the filters are on: this monitor installed them, or an ancestor did before an execve. */
static int installed;

int kr_jailed(void) { return installed; }

int kr_jail_install(struct kr_task *t, const char **why) {
    *why = "installing the monitor's own seccomp filter";
    if (kr_boot.flags & KR_BOOTF_NNP)
        kr_nnp_set(t);
    if (kr_boot.flags & KR_BOOTF_JAILED) { /* an execve: the filters came along */
        installed = 1;
        return 0;
    }
    long r = kr_sys5(__NR_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (r > 0 && (kr_boot.flags & KR_BOOTF_FIRST))
        kr_nnp_set(t);
    if (r <= 0)
        r = kr_sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (r < 0)
        return (int)r;
    struct kr_bpf p = {.f = kr_alloc(MAX_FILTER * sizeof *p.f), .room = MAX_FILTER};
    if (!p.f)
        return -ENOMEM;
    r = kr_profile_install(why); /* before: the jail allows no further filter */
    if (r == 0) {
        *why = "installing the monitor's own seccomp filter";
        kr_jail_build(&p);
        r = kr_filter_install(&p, 0);
    }
    kr_free(p.f, MAX_FILTER * sizeof *p.f);
    installed = r == 0;
    return (int)r;
}
