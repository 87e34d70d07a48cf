/* SPDX-License-Identifier: Apache-2.0
 *
 * The VM: creation, vCPUs (Documentation/virt/kvm/api.rst). Its memory slots: slots.c.
 *
 * Slots are made before vCPUs, and there is no irqchip: both make the start faster. State: struct kr_vm, under
 * mm->lock; cpuid, constant after the first VM of the process; apic_base, in which all threads store the same.
 */
#include "mm.h"
#include "callpage.h"
#include "x86.h"
#include "fdtab.h"
#include "../lib/kr_guard.h"
#include "../lib/kr_linux.h"
#include "hostmem.h"
#include "request.h"
#include "root.h"
#include "slots.h"
#include <linux/futex.h>
#include <linux/resource.h>

#define MAX_CPUID 160

static struct {
    struct kvm_cpuid2 head;
    struct kvm_cpuid_entry2 entry[MAX_CPUID];
} cpuid;

/* An ioctl that makes a descriptor. If the payload has used up all numbers below its soft RLIMIT_NOFILE, the
 * limit is raised for the time of the call; kr_fd_hide then finds a number above it. */
static long new_fd(int fd, u64 req, u64 arg) {
    long r = ioctl_(fd, req, (const void *)arg);
    u64 lim[2];
    if (r != -EMFILE || kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, lim) < 0 || lim[0] == lim[1])
        return r;
    u64 up[2] = {lim[1], lim[1]};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, up, 0);
    r = ioctl_(fd, req, (const void *)arg);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_NOFILE, lim, 0);
    return r;
}

static int is_anonymous(int fd) {
    u64 st[18]; /* struct stat; its st_mode is the low half of the fourth word */
    return kr_sys2(__NR_fstat, fd, st) == 0 && !(st[3] & S_IFMT);
}

static void *reserve(u64 size) {
    long p = kr_sys6(__NR_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     (u64)-1, 0);
    if (p < 0)
        return NULL;
    kr_guard_memory((u64)p, size);
    return (void *)p;
}

/* System area and table pool have a place of their own (KR_HOST_SYS). They are mapped piece by piece when first
 * needed, because RLIMIT_AS and RLIMIT_DATA count every mapped page, and the payload may have set them tight. */
int kr_pt_back(struct kr_vm *vm) {
    int r = kr_host_back(vm->pt + vm->pt_backed, KR_PT_STEP, vm->inherited != 0);
    if (!r)
        vm->pt_backed += KR_PT_STEP;
    return r;
}

static const struct kvm_cpuid_entry2 *leaf(u32 function, u32 index) {
    for (u32 i = 0; i < cpuid.head.nent; i++)
        if (cpuid.entry[i].function == function && cpuid.entry[i].index == index)
            return &cpuid.entry[i];
    return NULL;
}

/* XCR0 and the size of its XSAVE image in the standard layout, from CPUID leaf 0xD: a constant would not fit
 * every processor (SDM vol. 1, 13.2). */
static void find_xstate(struct kr_vm *vm) {
    const struct kvm_cpuid_entry2 *d = leaf(0xd, 0);
    vm->xcr0 = 1;
    vm->xsave_size = 576;
    if (!d)
        return;
    vm->xcr0 = (d->eax | (u64)d->edx << 32) & 0xe7; /* x87 SSE AVX AVX-512 */
    for (u32 i = 2; i < 8; i++) {
        const struct kvm_cpuid_entry2 *e = leaf(0xd, i);
        if (e && (vm->xcr0 >> i & 1))
            vm->xsave_size = KR_MAX(vm->xsave_size, e->ebx + e->eax);
    }
}

const void *kr_vm_cpuid(u32 *size) {
    *size = (u32)(sizeof cpuid.head + cpuid.head.nent * sizeof cpuid.entry[0]);
    return cpuid.head.nent ? &cpuid : NULL;
}

void kr_vm_set_cpuid(const void *data, u32 size) {
    if (size > sizeof cpuid.head && size <= sizeof cpuid &&
        (size - sizeof cpuid.head) % sizeof cpuid.entry[0] == 0) {
        memcpy(&cpuid, data, size);
        cpuid.head.nent = (u32)((size - sizeof cpuid.head) / sizeof cpuid.entry[0]);
    }
}

static long learn_cpu(struct kr_vm *vm) {
    if (!cpuid.head.nent) {
        cpuid.head.nent = MAX_CPUID;
        long r = ioctl_(vm->kvm_fd, KVM_GET_SUPPORTED_CPUID, &cpuid);
        if (r < 0) {
            cpuid.head.nent = 0;
            return r;
        }
    }
    find_xstate(vm);
    long size = ioctl_(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
    vm->run_size = size > 0 ? (u32)size : 4096 * 3;
    return 0;
}

int kr_vm_create(struct kr_vm *vm, int kvm_fd, int fresh, const char **why) {
    vm->kvm_fd = kvm_fd;
    vm->vcpus = vm->free_vcpus = NULL;
    vm->next_vcpu = vm->scarce = vm->waiters = 0; /* no other thread has this VM yet */
    vm->fd = -1;
    if (fresh && !vm->sys) {
        *why = "memory for the monitor's tables";
        vm->sys = (u8 *)(KR_HOST_SYS + KR_PAGE * kr_random(KR_HOST_SYS_SPREAD / KR_PAGE));
        vm->pt = vm->sys + KR_SYS_SIZE;
        vm->pt_slots = 1;
        vm->sys_backed = KR_SYS_FIRST;
        vm->chunk = reserve(KR_CHUNKS * sizeof(u32));
        vm->chunk_list = reserve(KR_SLOTS_MAX * sizeof vm->chunk_list[0]);
        if (kr_host_back(vm->sys, KR_SYS_FIRST, 0) < 0 || !vm->chunk || !vm->chunk_list)
            return -ENOMEM;
        kr_x86_shared_pages(vm->sys);
        if (vm->local)
            kr_callpage_code(vm->sys + KR_SYS_STUB);
        if (kr_pt_init(vm) < 0 ||
            kr_pt_sys(vm, KR_SYS_BASE + KR_SYS_GDT, KR_SYS_GPA + KR_SYS_GDT, KR_PTE_W | KR_PTE_NX) < 0 ||
            kr_pt_sys(vm, KR_SYS_BASE + KR_SYS_IDT, KR_SYS_GPA + KR_SYS_IDT, KR_PTE_W | KR_PTE_NX) < 0 ||
            kr_pt_sys(vm, KR_SYS_BASE + KR_SYS_EXC, KR_SYS_GPA + KR_SYS_EXC, 0) < 0)
            return -ENOMEM;
        if (kvm_fd < 0)
            return 0; /* tables only; called again when the program is loaded */
    }
    *why = "KVM_CREATE_VM";
    long fd = new_fd(kvm_fd, KVM_CREATE_VM, 0);
    if (fd < 0)
        return (int)fd;
    int r = kr_fd_hide((int)fd, KR_FD_FORK_DROPS, &vm->fd);
    if (r < 0)
        return r;
    *why = "KVM_GET_SUPPORTED_CPUID";
    r = (int)learn_cpu(vm);
    if (r < 0)
        return r;
    if (!vm->max_vcpus) {
        long max = ioctl_(vm->fd, KVM_CHECK_EXTENSION, (void *)KVM_CAP_MAX_VCPUS);
        vm->max_vcpus = max > 0 ? (u32)KR_MIN((u64)max, KR_MAX_VCPUS) : 1;
    }
    *why = "KVM_SET_USER_MEMORY_REGION";
    return kr_slots_create(vm);
}

static void first_state(struct kr_vm *vm, struct kr_vcpu *v) {
    const struct kvm_cpuid_entry2 *f = leaf(7, 0);
    u64 cr4 = (vm->xcr0 > 1 ? 1u << 18 : 0) | (f && (f->ebx & 1) ? 1u << 16 : 0); /* OSXSAVE, FSGSBASE */
    memset(&v->run->s.regs.regs, 0, sizeof v->run->s.regs.regs);
    v->run->s.regs.regs.rflags = KR_FLAGS_FIXED;
    kr_x86_sregs(&v->run->s.regs.sregs, kr_root(vm, v->idx), v->idx, cr4);
    v->run->kvm_valid_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
    memset(&v->run->s.regs.events, 0,
           sizeof v->run->s.regs.events); /* no exception of an earlier owner's (cpu.h) */
    v->run->kvm_dirty_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS;
}

static int map_area(struct kr_vm *vm, struct kr_vcpu *v) {
    u64 area = KR_VCPU_AREA(v->idx), gva = KR_SYS_BASE + area;
    if (area >= KR_SYS_MORE && kr_slots_more(vm) < 0)
        return -ENOMEM;
    while (area + KR_VCPU_SIZE > vm->sys_backed) {
        if (vm->sys_backed == KR_SYS_SIZE) /* the pool lies in between */
            vm->sys_backed = KR_SYS_MORE;
        if (kr_host_back(vm->sys + vm->sys_backed, KR_SYS_STEP, vm->inherited != 0) < 0)
            return -ENOMEM;
        vm->sys_backed += KR_SYS_STEP;
    }
    v->stub = gva + KR_VCPU_STUB;
    v->entry = v->stub + (vm->local ? KR_EO_ENTRY : KR_EO_OUT);
    v->tss = vm->sys + area + KR_VCPU_TSS;
    v->ist = vm->sys + area + KR_VCPU_IST;
    v->df = vm->sys + area + KR_VCPU_DF;
    kr_x86_tss(v->tss, v->idx, kr_vm_entry(vm) == KR_ENTRY_RING3);
    /* All vCPUs have the same physical page as stub. Ring 3 may read it, because PVM runs it in ring 3. On other
     * back ends a jump there meets a closed I/O bitmap. */
    int r = kr_pt_sys(vm, v->stub, KR_SYS_GPA + KR_SYS_STUB, KR_PTE_U);
    if (!r)
        r = kr_pt_sys(vm, gva + KR_VCPU_CALL, KR_SYS_GPA + area + KR_VCPU_CALL,
                      KR_PTE_U | KR_PTE_W | KR_PTE_NX);
    if (!r)
        r = kr_pt_sys(vm, gva + KR_VCPU_TSS, KR_SYS_GPA + area + KR_VCPU_TSS, KR_PTE_W | KR_PTE_NX);
    if (!r)
        r = kr_pt_sys(vm, gva + KR_VCPU_IST, KR_SYS_GPA + area + KR_VCPU_IST, KR_PTE_W | KR_PTE_NX);
    if (!r)
        r = kr_pt_sys(vm, gva + KR_VCPU_DF, KR_SYS_GPA + area + KR_VCPU_DF, KR_PTE_W | KR_PTE_NX);
    if (!r && vm->local)
        r = kr_callpage_map(vm, v);
    return r;
}

static long set_msrs(struct kr_vcpu *v) {
    struct {
        struct kvm_msrs head;
        struct kvm_msr_entry e[4];
    } m = {.head.nmsrs = 3};
    /* STAR: SYSCALL loads CS from bits 47:32 and SS = +8; SYSRET CS = bits 63:48 + 16, SS = +8 (APM vol.
     * 2, 6.1.1). */
    m.e[0] = (struct kvm_msr_entry){.index = 0xc0000081,
                                    .data = (u64)KR_KERNEL_CS << 32 | (u64)(KR_USER_SS - 8) << 48};
    m.e[1] = (struct kvm_msr_entry){.index = 0xc0000082, .data = v->entry};
    m.e[2] = (struct kvm_msr_entry){.index = 0xc0000084, .data = KR_SFMASK};
    long r = ioctl_(v->fd, KVM_SET_MSRS, &m);
    return r == 3 ? 0 : r < 0 ? r : -EINVAL;
}

/* Makes the guest's TSC the host's, so that the vDSO can use RDTSC with the host's figures. */
static void set_tsc(struct kr_vm *vm, struct kr_vcpu *v) {
    u64 zero = 0;
    struct kvm_device_attr a = {.group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET, .addr = (u64)&zero};
    if (ioctl_(v->fd, KVM_SET_DEVICE_ATTR, &a) < 0)
        return; /* before Linux 5.16: tsc_khz stays 0, and the vDSO makes system calls */
    if (!vm->tsc_khz) {
        long khz = ioctl_(v->fd, KVM_GET_TSC_KHZ, 0);
        vm->tsc_khz = khz > 0 ? (u64)khz : 0;
    }
}

/* Gives in *s the APIC base with which KVM has made v. Those of vCPU 0 and of the others differ in the bit of the
 * bootstrap processor (kvm_lapic_reset() in the kernel). A request to a vCPU takes 6 us on PVM, because it loads the
 * vCPU, so KVM is asked once for each of the two. 0 or -errno. */
static long get_apic_base(const struct kr_vcpu *v, struct kvm_sregs *s) {
    static u64 apic_base[2]; /* 0: not asked yet */
    u64 *known = &apic_base[v->idx != 0];
    long r = 0;
    s->apic_base = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!s->apic_base)
        r = ioctl_(v->fd, KVM_GET_SREGS, s);
    if (r >= 0)
        __atomic_store_n(known, s->apic_base, __ATOMIC_RELAXED);
    return r;
}

static long set_up(struct kr_vm *vm, struct kr_vcpu *v) {
    long r = map_area(vm, v);
    if (r < 0)
        return r;
    r = ioctl_(v->fd, KVM_SET_CPUID2, &cpuid); /* first, because CPUID says what the other calls may set */
    if (r < 0)
        return r;
    if (vm->xcr0 > 1) {
        struct kvm_xcrs x = {.nr_xcrs = 1, .xcrs = {{.xcr = 0, .value = vm->xcr0}}};
        r = ioctl_(v->fd, KVM_SET_XCRS, &x);
        if (r < 0)
            return r;
    }
    struct kvm_sregs s;
    r = get_apic_base(v, &s);
    if (r < 0)
        return r;
    v->run->s.regs.sregs.apic_base = s.apic_base;
    first_state(vm, v);
    r = set_msrs(v);
    set_tsc(vm, v);
    return r;
}

/* Before Linux 6.13 the first KVM_RUN of a vCPU on another thread costs a synchronize_rcu(): 10 ms and more. A
 * new vCPU costs 0.2 ms and about 40 KB. So on such a kernel the first SPARE_VCPUS are not used again. */
#define SPARE_VCPUS 32

static int reuse_is_cheap(void) {
    static int known = -1;
    if (known < 0) {
        char u[6][65];
        const char *p = u[2];
        known = 0;
        if (kr_sys1(__NR_uname, u) == 0) {
            u64 major = kr_strtou(p, &p), minor = *p == '.' ? kr_strtou(p + 1, &p) : 0;
            known = major > 6 || (major == 6 && minor >= 13);
        }
    }
    return known;
}

#define TRIES 16

/* Makes a vCPU of KVM's and sets v->fd and v->idx. The number is counted before KVM has the vCPU: a process that is
 * killed in between uses up a number. Another thread that closes numbers which it does not own can spoil the
 * descriptor that KVM gives (kr_fd_hide_end). Then KVM keeps the vCPU and refuses its number from now on, so that
 * the next vCPU gets another number. 0 or -errno. */
static long make_vcpu(struct kr_vm *vm, const struct kr_mm *mm, struct kr_vcpu *v) {
    long fd = -EAGAIN;
    for (int tries = 0; fd == -EAGAIN && tries < TRIES && vm->next_vcpu < vm->max_vcpus; tries++) {
        v->idx = vm->next_vcpu++;
        kr_fd_hide_begin(mm);
        long made = new_fd(vm->fd, KVM_CREATE_VCPU, v->idx);
        fd = kr_fd_hide_end(mm, (int)made, KR_FD_FORK_DROPS, &v->fd);
        if (made < 0) {
            vm->next_vcpu--;
            return made;
        }
    }
    return fd < 0 ? fd : 0;
}

struct kr_vcpu *kr_vcpu_get(struct kr_vm *vm, struct kr_task *owner) {
    u32 limit = owner->vcpu_limit;
    struct kr_vcpu **at = &vm->free_vcpus, *v;
    while ((v = *at) && limit && v->idx >= limit)
        at = &v->free_next;
    if (v && (reuse_is_cheap() || vm->scarce || limit || vm->next_vcpu >= SPARE_VCPUS)) {
        *at = v->free_next;
        v->owner = owner;
        first_state(vm, v);
        if (vm->local)
            kr_callpage_reset(vm, v);
        return v;
    }
    /* With a limit the task has a copy of the descriptor table: a vCPU made there would be in no other table. */
    if (vm->next_vcpu >= vm->max_vcpus || limit)
        __atomic_store_n(&vm->scarce, 1, __ATOMIC_RELAXED);
    if (vm->scarce || !(v = kr_alloc(sizeof *v)))
        return NULL;
    v->fd = -1;
    long run = 0;
    if (make_vcpu(vm, owner->mm, v) < 0) {
        kr_free(v, sizeof *v);
        __atomic_store_n(&vm->scarce, vm->vcpus != NULL, __ATOMIC_RELAXED);
        return NULL;
    }
    /* Only a hidden number is used, because the payload's threads can put another file under a number that is
     * not hidden. If one ever did so before the number was hidden, a file that is not an anonymous inode gets
     * none of the requests of set_up. */
    if (!is_anonymous(v->fd))
        goto fail;
    run = kr_sys6(__NR_mmap, 0, vm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)v->fd, 0);
    if (run < 0)
        goto fail;
    v->run = (struct kvm_run *)run;
    v->owner = owner;
    if (set_up(vm, v) < 0)
        goto fail;
    if (vm->local)
        kr_callpage_reset(vm, v);
    v->next = vm->vcpus;
    vm->vcpus = v;
    return v;
fail:
    if (run > 0)
        kr_sys2(__NR_munmap, run, vm->run_size);
    kr_fd_drop(&v->fd);
    kr_free(v, sizeof *v);
    return NULL;
}

/* The descriptors are closed already: every fd is -1. */
void kr_vcpus_after_fork(struct kr_vm *vm) {
    for (struct kr_vcpu *v = vm->vcpus, *next; v; v = next) {
        next = v->next;
        kr_sys2(__NR_munmap, v->run, vm->run_size);
        kr_free(v, sizeof *v);
    }
    vm->vcpus = vm->free_vcpus = NULL;
    vm->fd = -1;
}

void kr_vcpu_put(struct kr_vm *vm, struct kr_vcpu *v) {
    v->owner = NULL;
    v->free_next = vm->free_vcpus;
    vm->free_vcpus = v;
    __atomic_add_fetch(&vm->released, 1, __ATOMIC_SEQ_CST);
    if (vm->waiters)
        kr_sys3(__NR_futex, &vm->released, FUTEX_WAKE_PRIVATE, 1);
}

void kr_vm_open_port(struct kr_vm *vm) {
    kr_vm_entry_set(vm, KR_ENTRY_RING3);
    for (struct kr_vcpu *v = vm->vcpus; v; v = v->next)
        kr_x86_tss(v->tss, v->idx, 1);
}

/* ---- after a death ---- */

static int is_free(const struct kr_vm *vm, const struct kr_vcpu *v) {
    const struct kr_vcpu *f = vm->free_vcpus;
    while (f && f != v)
        f = f->free_next;
    return f == v;
}

static int has_owner(const struct kr_vcpu *v, const struct kr_task *tasks) {
    while (tasks && tasks != v->owner)
        tasks = tasks->next;
    return tasks != NULL;
}

void kr_vm_heir(struct kr_vm *vm, const struct kr_task *tasks) {
    vm->inherited = 1;
    if (vm->root_gpa !=
        KR_PT_GPA) { /* inside a step of kr_probe_fault; the pool's first table is the root (kr_pt_init) */
        vm->root_gpa = KR_PT_GPA;
        vm->probe_gpa = 0;
    }
    kr_slots_heir(vm);
    for (struct kr_vcpu *v = vm->vcpus; v; v = v->next)
        if (!has_owner(v, tasks) && !is_free(vm, v))
            kr_vcpu_put(vm, v);
    if (kr_vm_entry(vm) == KR_ENTRY_RING3)
        kr_vm_open_port(vm);
}

int kr_vcpu_get_xsave(struct kr_vm *vm, struct kr_vcpu *v, void *buf) {
    struct kvm_xsave *x = buf;
    (void)vm;
    _Static_assert(sizeof(struct kvm_xsave) >= 4096, "xcr0 is masked so that 4096 bytes hold it");
    return (int)ioctl_(v->fd, KVM_GET_XSAVE, x);
}

int kr_vcpu_set_xsave(struct kr_vm *vm, struct kr_vcpu *v, const void *buf) {
    (void)vm;
    return (int)ioctl_(v->fd, KVM_SET_XSAVE, buf);
}
