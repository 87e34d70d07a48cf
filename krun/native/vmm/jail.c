/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's own seccomp filter on the host. What a monitor that was taken over by its payload can still
 * do is: the calls that the payload may make anyway, and those of KVM that the monitor itself needs. It
 * cannot map executable memory, make memory executable, or attach to other processes.
 *
 * The list follows from the table of system calls (every call that is forwarded or served is allowed), from
 * `own` below (what only the monitor calls), and from the rules on arguments. Any other call kills the
 * process, which the kernel writes to its audit log: no monitor makes one by accident
 * (tests/unit/test_syscalls_table.py reads the sources for them), so it is not the monitor's code that runs
 * there.
 *
 * State: none but the filter in the kernel. Called once, by the first thread.
 */
#include "jail.h"
#include "../abi/boot.h"
#include "../sys/table.h"
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/mman.h>
#include <linux/personality.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#define MAX_NR 600
#define MAX_FILTER 768
#define SHM_EXEC_FLAG 0100000

enum { KILL, ALLOW, RULE };

/* Calls that the table does not allow, or that argument rules must see first. */
static const struct {
    u16 nr;
    u8 what;
} own[] = {
    {__NR_restart_syscall, ALLOW}, /* the kernel itself goes on with a sleep in this way */
    {__NR_rt_sigreturn, ALLOW},    /* end of the host signal handler */
    {__NR_execveat, ALLOW},        /* the payload's execve: the monitor executes itself */
    {__NR_arch_prctl, ALLOW},      /* %fs of a monitor that starts */
    {__NR_pkey_alloc, ALLOW},      /* lib/kr_guard.h: at the start of a monitor */
    {__NR_memfd_create, ALLOW},    /* boot block, snapshots of /proc files */
    {__NR_ioctl, RULE},
    {__NR_mmap, RULE},
    {__NR_mprotect, RULE},
    {__NR_pkey_mprotect, RULE},
    {__NR_prctl, RULE},
    {__NR_shmat, RULE},
    {__NR_personality, RULE},
    {__NR_seccomp, KILL}, /* in the table, but the payload's filters are the monitor's to evaluate */
    /* Served without the call (sys/self.c): */
    {__NR_process_vm_readv, KILL},
    {__NR_process_vm_writev, KILL},
    {__NR_pidfd_getfd, KILL},
    {__NR_process_madvise, KILL},
};

/* KVM's requests: making a VM and its vCPUs, running them, their state (registers, extended state, events,
 * debug), memory and its dirty log. No devices, no interrupt controllers, no assignment, nothing of other
 * architectures. */
static const u32 kvm_requests[] = {
    (u32)KVM_RUN,
    (u32)KVM_GET_API_VERSION,
    (u32)KVM_CREATE_VM,
    (u32)KVM_CHECK_EXTENSION,
    (u32)KVM_GET_VCPU_MMAP_SIZE,
    (u32)KVM_GET_SUPPORTED_CPUID,
    (u32)KVM_GET_MSR_INDEX_LIST,
    (u32)KVM_SET_USER_MEMORY_REGION,
    (u32)KVM_CREATE_VCPU,
    (u32)KVM_SET_CPUID2,
    (u32)KVM_GET_REGS,
    (u32)KVM_SET_REGS,
    (u32)KVM_GET_SREGS,
    (u32)KVM_SET_SREGS,
    (u32)KVM_GET_MSRS,
    (u32)KVM_SET_MSRS,
    (u32)KVM_GET_FPU,
    (u32)KVM_SET_FPU,
    (u32)KVM_GET_XSAVE,
    (u32)KVM_SET_XSAVE,
    0x9000aecf, /* KVM_GET_XSAVE2 */
    (u32)KVM_GET_XCRS,
    (u32)KVM_SET_XCRS,
    (u32)KVM_GET_VCPU_EVENTS,
    (u32)KVM_SET_VCPU_EVENTS,
    (u32)KVM_GET_DEBUGREGS,
    (u32)KVM_SET_DEBUGREGS,
    (u32)KVM_SET_GUEST_DEBUG,
    (u32)KVM_TRANSLATE,
    (u32)KVM_GET_TSC_KHZ,
    (u32)KVM_SET_TSC_KHZ,
    (u32)KVM_SET_DEVICE_ATTR, /* of a vCPU: its TSC offset */
    (u32)KVM_GET_DEVICE_ATTR,
    (u32)KVM_HAS_DEVICE_ATTR,
    (u32)KVM_SET_SIGNAL_MASK,
    (u32)KVM_ENABLE_CAP,
    (u32)KVM_GET_DIRTY_LOG,
    (u32)KVM_CLEAR_DIRTY_LOG,
};

struct program {
    struct sock_filter f[MAX_FILTER];
    u32 n;
};

static void put(struct program *p, u16 code, u32 k, u8 jt, u8 jf) {
    if (p->n < MAX_FILTER)
        p->f[p->n] = (struct sock_filter){code, jt, jf, k};
    p->n++;
}

#define LOAD(off) put(p, BPF_LD | BPF_W | BPF_ABS, (u32)(off), 0, 0)
#define RET(v) put(p, BPF_RET | BPF_K, (v), 0, 0)
#define ARG_LOW(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/* `if (A == nr) { body }`: the jump over the body is filled in when its length is known. Bodies end in a
 * return. */
static u32 begin(struct program *p, u32 nr) {
    put(p, BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 0);
    return p->n;
}

static void end(struct program *p, u32 at) {
    if (at <= MAX_FILTER)
        p->f[at - 1].jf = (u8)(p->n - at);
}

/* Refuses the call when argument i has one of these bits, else allows it. */
static void rule_bits(struct program *p, u32 nr, u32 i, u32 bits) {
    u32 at = begin(p, nr);
    LOAD(ARG_LOW(i));
    put(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    RET(REFUSE);
    RET(SECCOMP_RET_ALLOW);
    end(p, at);
}

static void rule_ioctl(struct program *p) {
    u32 at = begin(p, __NR_ioctl);
    LOAD(ARG_LOW(1));
    for (u32 i = 0; i < KR_COUNT(kvm_requests); i++) {
        put(p, BPF_JMP | BPF_JEQ | BPF_K, kvm_requests[i], 0, 1);
        RET(SECCOMP_RET_ALLOW);
    }
    put(p, BPF_ALU | BPF_AND | BPF_K, 0xff00, 0, 0); /* other requests of KVM's type: none */
    put(p, BPF_JMP | BPF_JEQ | BPF_K, KVMIO << 8, 0, 1);
    RET(REFUSE);
    RET(SECCOMP_RET_ALLOW); /* sys/ioctl.c has the list */
    end(p, at);
}

static void rule_prctl(struct program *p) {
    u32 at = begin(p, __NR_prctl);
    LOAD(ARG_LOW(0));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1);
    RET(REFUSE);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_DUMPABLE, 0,
        4); /* a monitor stays undumpable: no ptrace by its uid */
    LOAD(ARG_LOW(1));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    RET(SECCOMP_RET_ALLOW);
    RET(REFUSE);
    put(p, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_MM, 0, 4);
    LOAD(ARG_LOW(1));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_MM_MAP, 0, 1);
    RET(SECCOMP_RET_ALLOW);
    RET(REFUSE);
    RET(SECCOMP_RET_ALLOW);
    end(p, at);
}

static void build(struct program *p) {
    u8 what[MAX_NR] = {0};
    for (u32 nr = 0; nr < MAX_NR; nr++) {
        const struct kr_sys_row *row = kr_sys_row(nr);
        if (row && row->service != KR_SVC_REFUSE)
            what[nr] = ALLOW;
    }
    for (u32 i = 0; i < KR_COUNT(own); i++)
        what[own[i].nr] = own[i].what;

    LOAD(offsetof(struct seccomp_data, arch));
    put(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    RET(SECCOMP_RET_KILL_PROCESS);
    LOAD(offsetof(struct seccomp_data, nr));
    rule_ioctl(p); /* first: KVM_RUN is every second call */
    rule_bits(p, __NR_mmap, 2, PROT_EXEC);
    rule_bits(p, __NR_mprotect, 2, PROT_EXEC);
    rule_bits(p, __NR_pkey_mprotect, 2, PROT_EXEC);
    rule_bits(p, __NR_shmat, 2, SHM_EXEC_FLAG);
    rule_prctl(p);
    {
        u32 at = begin(p, __NR_personality); /* READ_IMPLIES_EXEC would undo the rule on mmap, the others move
                                                the monitor; ~0 asks */
        LOAD(ARG_LOW(0));
        put(p, BPF_JMP | BPF_JEQ | BPF_K, ~0u, 1, 0);
        put(p, BPF_JMP | BPF_JSET | BPF_K, KR_PERSONA_OWN, 1, 0);
        RET(SECCOMP_RET_ALLOW);
        RET(REFUSE);
        end(p, at);
    }
    for (u32 nr = 0; nr < MAX_NR; nr++) {
        u32 last = nr;
        if (what[nr] != ALLOW)
            continue;
        while (last + 1 < MAX_NR && what[last + 1] == ALLOW)
            last++;
        put(p, BPF_JMP | BPF_JGE | BPF_K, nr, 0, 2);
        put(p, BPF_JMP | BPF_JGT | BPF_K, last, 1, 0);
        RET(SECCOMP_RET_ALLOW);
        nr = last;
    }
    RET(SECCOMP_RET_KILL_PROCESS);
}

int kr_nnp_view(struct kr_task *t) { return __atomic_load_n(&t->nnp, __ATOMIC_RELAXED) != 0; }

void kr_nnp_set(struct kr_task *t) { __atomic_store_n(&t->nnp, 1, __ATOMIC_RELAXED); }

int kr_nnp_or_admin(struct kr_task *t) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct cap[2];
    if (kr_nnp_view(t))
        return 1;
    return kr_sys2(__NR_capget, &head, cap) == 0 && cap[0].effective >> CAP_SYS_ADMIN & 1;
}

int kr_jail_install(struct kr_task *t) {
    long nnp = kr_sys5(__NR_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (!(kr_boot.flags & KR_BOOTF_FIRST)) {
        /* An execve: the filter came along. */
        if (kr_boot.flags & KR_BOOTF_NNP)
            kr_nnp_set(t);
        if (kr_sys5(__NR_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER)
            return 0;
    } else if (nnp > 0) {
        kr_nnp_set(t);
    }
    if (nnp <= 0) {
        long r = kr_sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (r < 0)
            return (int)r;
    }
    struct program *p = kr_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    build(p);
    struct {
        u16 len;
        u16 pad[3];
        struct sock_filter *filter;
    } prog = {.len = (u16)p->n, .filter = p->f};
    /* Without SPEC_ALLOW old kernels would turn on costly speculation controls for the whole thread. */
    long r = p->n > MAX_FILTER
                 ? -E2BIG
                 : kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog);
    kr_free(p, sizeof *p);
    return (int)r;
}
