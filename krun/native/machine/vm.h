/* SPDX-License-Identifier: Apache-2.0
 *
 * One KVM virtual machine: descriptor, memory slots, system area, page tables, vCPUs. struct kr_mm owns it.
 * All functions are called with mm->lock held, except where a comment says otherwise.
 */
#ifndef KR_VM_H
#define KR_VM_H

#include "vmm.h"

/* How SYSCALL enters the stub on this back end. Found at the first exit (docs/architecture.md, "Entry kinds"). */
enum kr_entry_kind {
    KR_ENTRY_UNKNOWN = 0,
    KR_ENTRY_RING0 = 1, /* VMX, SVM: the stub runs in ring 0; the I/O bitmap stays closed */
    KR_ENTRY_RING3 = 2, /* PVM: the stub runs in ring 3; its OUT needs an open bitmap */
};

struct kr_vcpu {
    struct kr_vcpu *next; /* all vCPUs of the VM */
    struct kr_vcpu *free_next;
    struct kvm_run *run;
    int fd; /* hidden descriptor; -1 when gone */
    u32 idx;
    u64 stub;  /* guest address of this vCPU's stub page: its exit */
    u64 entry; /* LSTAR: the exit, or the code for completed calls in front of it */
    u8 *tss;   /* host address of its TSS page */
    u8 *ist;   /* host address of its exception stack page */
    u8 *df;
    struct kr_task *owner;
};

/* A chunk of the window that has slots. */
struct kr_chunk {
    u32 at;    /* its address >> KR_CHUNK_SHIFT */
    u32 parts; /* one bit for each part that a slot covers; above KR_CHUNK_PARTS: how many slots it has */
};

struct kr_vm {
    int kvm_fd, fd; /* hidden descriptors */
    u32 entry;      /* enum kr_entry_kind; by kr_vm_entry, kr_vm_entry_set */
    u32 run_size;
    u32 nslots;     /* next free slot number */
    u32 next_chunk; /* next free window chunk number in guest-physical space */
    u32 next_vcpu;
    u32 max_vcpus;
    u8 *sys; /* host address of the system area */
    u8 *pt;  /* host address of the page-table pool (contiguous in host and guest-physical space) */
    u32 pt_used, pt_slots; /* table pages given out; pool slots registered */
    u64 pt_backed;         /* bytes of the pool that the host has mapped */
    u64 sys_backed;        /* the same of the system area */
    u32 inherited;         /* kr_vm_heir has been called: mappings may exist that are not counted */
    u32 local;             /* calls are completed inside the guest; constant */
    u32 scarce;            /* KVM refused a vCPU once: share.h; atomic */
    u32 waiters, released; /* threads that wait for a vCPU; futex word that counts releases; atomic */
    u64 slice;             /* when threads were last interrupted for a waiter (share.c), ns; under mm->lock */
    u64 root_gpa;
    u64 probe_gpa; /* a root of probe.c that no probe uses; 0: there is none */
    u64 *roots;    /* roots of the vCPUs, by number (root.h); 0: vm->root_gpa */
    u32 nroots;
    struct kr_sites *sites; /* patched sites (site.h); NULL: there was none yet. Set once */
    struct kr_vcpu *vcpus, *free_vcpus;
    u32 *chunk; /* window chunk -> 1 + chunk number, from KR_SMALL_CHUNKS on; 0: no slot yet */
    struct kr_chunk *chunk_list; /* by chunk number */
    u64 xcr0;
    u32 xsave_size; /* bytes of the XSAVE area for xcr0 */
    u64 tsc_khz;
};

/* Any thread may call them without a lock: the kind is found once and stays. */
static inline u32 kr_vm_entry(const struct kr_vm *vm) {
    return __atomic_load_n(&vm->entry, __ATOMIC_RELAXED);
}
static inline void kr_vm_entry_set(struct kr_vm *vm, u32 kind) {
    __atomic_store_n(&vm->entry, kind, __ATOMIC_RELAXED);
}

/* Creates the VM with system area, page-table pool, and the slots of vm->chunk_list. fresh: a new mm,
 * which has no chunk. Else `vm` is fork's copy of the parent's: it keeps its memory, and only KVM's objects are
 * made anew. kvm_fd < 0: makes the tables only. 0 or -errno, with the name of the failed request in *why. */
int kr_vm_create(struct kr_vm *vm, int kvm_fd, int fresh, const char **why);

/* The answer of KVM_GET_SUPPORTED_CPUID, which takes 0.3 ms: the boot block hands it to the next monitor, which
 * sets it. struct kvm_cpuid2 and its size in bytes; NULL: not known yet. */
const void *kr_vm_cpuid(u32 *size);
void kr_vm_set_cpuid(const void *data, u32 size);

/* Gives `owner` a vCPU: a free one, else a new one. An owner with a vcpu_limit gets only a free one below the
 * limit. The registers are in their first state: user segments, general registers zero. A free vCPU keeps its
 * old extended state: callers load theirs. NULL: KVM gives no more. */
struct kr_vcpu *kr_vcpu_get(struct kr_vm *vm, struct kr_task *owner);
/* Gives a vCPU back, and wakes a thread that waits for one. */
void kr_vcpu_put(struct kr_vm *vm, struct kr_vcpu *v);

/* Part of kr_mm_heir (mm.h): completes or drops what a dead process has left half done in the VM. tasks: those of
 * the mm. */
void kr_vm_heir(struct kr_vm *vm, const struct kr_task *tasks);

/* Called when SYSCALL is found to stay in ring 3: opens the exit port in every TSS, because the stub's OUT needs
 * it there. */
void kr_vm_open_port(struct kr_vm *vm);

/* Drops every translation that KVM holds for this VM: adds a dummy slot and deletes it (pt.c, rule 4). */
void kr_vm_flush(struct kr_vm *vm);

/* Makes slots for those parts of [start, end) that have none (slots.c). 0 or -errno. */
int kr_vm_cover(struct kr_vm *vm, u64 start, u64 end);

/* ---- Page tables of the window (pt.c) ---- */

/* Makes the root table. 0 or -ENOMEM. */
int kr_pt_init(struct kr_vm *vm);
/* Enters [start, end), a range of whole pages, with prot; 0 clears it. make: missing tables are made; else only
 * entries of existing tables change. A part must have its slot before its entries become present. 0; -ENOMEM;
 * -EFAULT: not in the window. */
int kr_pt_update(struct kr_vm *vm, u64 start, u64 end, u32 prot, int make);
/* Registers one more slot of the pool (vm.c). 0 or -errno. */
int kr_pt_slot(struct kr_vm *vm);
/* Guest-physical address of a new, zeroed table page; 0: no memory. */
u64 kr_pt_table(struct kr_vm *vm);
/* Maps KR_PT_STEP more bytes of the pool on the host (vm.c). 0 or -errno. */
int kr_pt_back(struct kr_vm *vm);
/* Maps a whole block of 2 MiB by one entry, if no table was ever linked there. Its part must have a slot. 1:
 * done; 0: not. */
int kr_pt_leaf(struct kr_vm *vm, u64 block, u32 prot);
/* Whether the block of gva has been entered into the tables. */
int kr_pt_touched(struct kr_vm *vm, u64 gva);
/* Maps the page gva of the system area to gpa. pte_flags: KR_PTE_*. 0 or -ENOMEM. */
int kr_pt_sys(struct kr_vm *vm, u64 gva, u64 gpa, u64 pte_flags);
/* The last entry for gva; 0 if there is none. */
u64 kr_pt_get(struct kr_vm *vm, u64 gva);

#define KR_PTE_P (1ULL << 0)
#define KR_PTE_W (1ULL << 1)
#define KR_PTE_U (1ULL << 2)
#define KR_PTE_A (1ULL << 5)
#define KR_PTE_D (1ULL << 6)
#define KR_PTE_PS (1ULL << 7)
#define KR_PTE_NX (1ULL << 63)

/* FPU and extended state of a vCPU in the standard XSAVE layout. buf: 4096 bytes (struct kvm_xsave), of which
 * vm->xsave_size are used. Called on the vCPU's thread, or while it stands. 0 or -errno. */
int kr_vcpu_get_xsave(struct kr_vm *vm, struct kr_vcpu *v, void *buf);
int kr_vcpu_set_xsave(struct kr_vm *vm, struct kr_vcpu *v, const void *buf);

/* In a fork child: forgets the vCPUs, which the parent keeps. Their descriptors are closed already
 * (monitor/state.def, row `descriptors`). */
void kr_vcpus_after_fork(struct kr_vm *vm);

#endif
