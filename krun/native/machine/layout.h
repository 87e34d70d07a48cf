/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses.
 *
 *   guest virtual = monitor virtual, but for KR_SYS_BASE, which only the guest's tables know
 *   0x0000_0000_0000  nothing (mmap_min_addr)
 *   0x0000_0001_0000  KR_WINDOW_START
 *        ...          payload: program, brk heap
 *        ...          payload: mmap area (grows down), vDSO, stack
 *   0x6a00_0000_0000  KR_WINDOW_END                           end of what ring 3 may use
 *        ...          nothing but a fence of one page: guard gap of 4 TiB
 *   0x6c00_0000_0000  guest only: KR_SYS_BASE: GDT, IDT, stubs, TSS, stacks
 *   0x6d00_0000_0000  host only: KR_EMPTY_PATH, one page of zeros
 *   0x6e00_0000_0000  KR_HOST_SYS: where the monitor sees system area and page tables (random in 512 GiB)
 *   0x6f00_0000_0000  KR_HOST_LOW: below it only what stands above; checked at start (monitor/layout.c)
 *   0x6ffb_xxxx_xxxx  the lowest that the kernel's mmap area begins at (vm.mmap_rnd_bits = 32)
 *   0x7fxx_xxxx_xxxx  monitor: text, heap, stacks, vdso
 *
 * The window ends as high as that allows: the address sanitizer's allocator wants 0x6000_0000_0000 to
 * 0x6400_0000_0000 (0x5000_0000_0000 on in later versions), and stack and mmap area lie above it.
 *
 * The system area is in the low half because PVM reaches nothing else (portability rules). The gap behind the
 * window means that a kernel access which starts at a checked guest address and runs on faults before it
 * meets monitor memory.
 *
 *   guest physical
 *   0                 KR_SYS_GPA: the system area (descriptor tables, stubs, per-vCPU pages)
 *   KR_PT_GPA         page-table pool, right behind; its first part shares the system area's slot
 *   4 GiB             window chunks of 64 MiB in order of first use (low: GPA width may be 39 bits)
 */
#ifndef KR_LAYOUT_H
#define KR_LAYOUT_H

#define KR_WINDOW_START 0x10000ULL
#define KR_WINDOW_END 0x6a0000000000ULL
#define KR_TASK_SIZE 0x7ffffffff000ULL /* where Linux ends its user addresses */

#define KR_SYS_BASE 0x6c0000000000ULL
#define KR_SYS_GPA 0x0ULL
#define KR_SYS_SIZE 0x2200000ULL /* 34 MiB of address space, room for 1056 vCPUs; touched as needed */

/* The path of the monitor's only execveat: a constant address, so that the jail's filter can demand it, and a page that the kernel
 * lets nobody change (mseal(2), Linux 6.10; before, what stands against a change is that no call of the monitor's makes one). */
#define KR_EMPTY_PATH 0x6d0000000000ULL

#define KR_HOST_SYS 0x6e0000000000ULL
#define KR_HOST_SYS_SPREAD 0x8000000000ULL
/* Where the kernel puts what it places itself: text, stack, vDSO of the monitor, and all that it maps without
 * saying where. */
#define KR_HOST_LOW 0x6f0000000000ULL
/* The largest soft RLIMIT_STACK with which a monitor is executed: the kernel keeps a gap of at least 128 MiB
 * for any smaller one (mmap_base() in arch/x86/mm/mmap.c), and a quarter of it is more than the 6 MiB to
 * which execve(2) limits arguments at the most. */
#define KR_EXEC_STACK (32ULL << 20)
/* How much of the two the host maps at first and at a time. */
#define KR_SYS_FIRST KR_VCPU_AREA(8)
#define KR_SYS_STEP (8 * KR_VCPU_SIZE)
#define KR_PT_STEP 0x100000ULL

/* Shared pages, offsets from KR_SYS_BASE. */
#define KR_SYS_GDT 0x0000ULL
#define KR_SYS_IDT 0x1000ULL
#define KR_SYS_EXC 0x2000ULL  /* exception stubs, 16 bytes a vector */
#define KR_SYS_STUB 0x3000ULL /* LSTAR stub, mapped again in every vCPU's area */

/* Per-vCPU pages, offsets from the vCPU's area. The stub reaches the call page RIP-relative: it is the next
 * page. */
#define KR_VCPU_AREA(idx) (0x100000ULL + (u64)(idx)*KR_VCPU_SIZE)
#define KR_VCPU_SIZE 0x8000ULL
#define KR_VCPU_STUB 0x0000ULL
#define KR_VCPU_CALL 0x1000ULL
#define KR_VCPU_TSS 0x2000ULL
#define KR_VCPU_IST 0x3000ULL /* one page; the stack starts at its end */
#define KR_VCPU_DF 0x4000ULL  /* #DF has a stack of its own */
#define KR_MAX_VCPUS ((KR_SYS_SIZE - 0x100000ULL) / KR_VCPU_SIZE)

#define KR_PT_GPA (KR_SYS_GPA + KR_SYS_SIZE)
#define KR_PT_SLOT 0x1000000ULL /* 16 MiB: 4096 table pages */
#define KR_PT_SLOTS_MAX 208     /* up to chunk space at 4 GiB minus what is below */

_Static_assert(KR_HOST_SYS + KR_HOST_SYS_SPREAD + KR_SYS_SIZE + KR_PT_SLOTS_MAX * KR_PT_SLOT < KR_HOST_LOW,
               "system area and table pool end below what the kernel places");

#define KR_CHUNK_SHIFT 26
#define KR_CHUNK_SIZE (1ULL << KR_CHUNK_SHIFT)
#define KR_CHUNKS (KR_WINDOW_END >> KR_CHUNK_SHIFT)
#define KR_CHUNK_GPA 0x100000000ULL
#define KR_SLOTS_MAX 0x8000u /* KVM on x86 has fewer (KVM_MEM_SLOTS_NUM) */

/* Selectors, as Linux has them (a payload may look). STAR is derived from them. */
#define KR_KERNEL_CS 0x10
#define KR_KERNEL_SS 0x18
#define KR_USER_SS 0x2b
#define KR_USER_CS 0x33
#define KR_TSS_SEL 0x40

/* The port of all exits. KVM_X86_QUIRK_OUT_7E_INC_RIP makes RIP stand after the OUT on every back end. */
#define KR_PORT 0x7e

#endif
