/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses.
 *
 * A guest virtual address is the same virtual address in the monitor. The exception is KR_SYS_BASE, which only
 * the guest's page tables have.
 *
 *   0x0000_0000_0000  nothing (mmap_min_addr)
 *   0x0000_0001_0000  KR_WINDOW_START
 *        ...          payload: program, brk heap
 *        ...          payload: mmap area (grows down), vDSO, stack
 *   0x6a00_0000_0000  KR_WINDOW_END                           end of what ring 3 may use
 *        ...          only a fence of one page: guard gap of 4 TiB
 *   0x6c00_0000_0000  guest only: KR_SYS_BASE: GDT, IDT, stubs, TSS, stacks
 *   0x6c80_0000_0000  guest only, other pages for each vCPU: KR_OWN_BASE (guest/patched.h)
 *   0x6d00_0000_0000  host only: KR_EMPTY_PATH, one page of zeros
 *   0x6e00_0000_0000  KR_HOST_SYS: system area and page tables, as the monitor sees them (random in 512 GiB)
 *   0x6f00_0000_0000  KR_HOST_LOW: below it only the rows above; checked at start (monitor/layout.c)
 *   0x6ffb_xxxx_xxxx  lowest start of the kernel's mmap area (vm.mmap_rnd_bits = 32)
 *   0x7fxx_xxxx_xxxx  monitor: text, heap, stacks, vdso
 *
 * The window ends as high as the monitor's own areas allow, because AddressSanitizer's allocator uses
 * 0x6000_0000_0000 to 0x6400_0000_0000 (later versions: from 0x5000_0000_0000 on), and the payload's stack and
 * mmap area must lie above that.
 *
 * The system area is in the low half of the address space because PVM reaches no other. The gap behind the
 * window stops a kernel access that starts at a checked guest address and runs on: it faults before it meets
 * memory of the monitor's.
 *
 *   guest physical
 *   0                 KR_SYS_GPA: the system area (descriptor tables, stubs, per-vCPU pages)
 *   KR_PT_GPA         page-table pool, right behind the system area; its first part is in the same slot
 *   KR_SYS_MORE       the system area's second part: vCPUs from number 32 on
 *   4 GiB             window chunks of 64 MiB in order of first use (low, because a guest-physical address may have only 39 bits)
 */
#ifndef KR_LAYOUT_H
#define KR_LAYOUT_H

#define KR_WINDOW_START 0x10000ULL
#define KR_WINDOW_END 0x6a0000000000ULL
#define KR_TASK_SIZE 0x7ffffffff000ULL /* end of user addresses in Linux */

#define KR_SYS_BASE 0x6c0000000000ULL
#define KR_SYS_GPA 0x0ULL
/* The system area has two parts, so that its first part and that of the pool are one small slot (slots.h). The second
 * part lies behind the pool. Both are address space that is touched as needed. */
#define KR_SYS_SIZE 0x200000ULL /* what all vCPUs share, and the first 32 vCPUs */
#define KR_SYS_MORE (KR_SYS_SIZE + KR_PT_REACH(KR_PT_SLOTS_MAX))
#define KR_SYS_MORE_SIZE 0x2000000ULL /* 1024 vCPUs more */

/* The path of the monitor's only execveat. The address is constant, so that the jail's filter can demand it.
 * The page is sealed (mseal(2), Linux 6.10). Before Linux 6.10 the page stays as it is because no call of the
 * monitor's changes it. */
#define KR_EMPTY_PATH 0x6d0000000000ULL

#define KR_HOST_SYS 0x6e0000000000ULL
#define KR_HOST_SYS_SPREAD 0x8000000000ULL
/* From here on the kernel places what it places itself: text, stack and vDSO of the monitor, and every mapping
 * for which the monitor names no address. */
#define KR_HOST_LOW 0x6f0000000000ULL
/* The largest soft RLIMIT_STACK with which a monitor is executed. The kernel keeps a gap of at least 128 MiB
 * for every limit up to this one (mmap_base() in arch/x86/mm/mmap.c). A quarter of the limit bounds the
 * arguments, and is more than the 6 MiB to which execve(2) limits them in any case. */
#define KR_EXEC_STACK (32ULL << 20)
/* Bytes of system area and page-table pool that the host maps at first, and at a time. */
#define KR_SYS_FIRST KR_VCPU_AREA(8)
#define KR_SYS_STEP (8 * KR_VCPU_SIZE)
#define KR_PT_STEP 0x100000ULL

/* Shared pages, offsets from KR_SYS_BASE. */
#define KR_SYS_GDT 0x0000ULL
#define KR_SYS_IDT 0x1000ULL
#define KR_SYS_EXC 0x2000ULL  /* exception stubs, 16 bytes a vector */
#define KR_SYS_STUB 0x3000ULL /* LSTAR stub, mapped again in every vCPU's area */
/* Patched sites (guest/patched.h): used with the first one, and not mapped at KR_SYS_BASE. */
#define KR_SYS_TABLE 0x4000ULL    /* the addresses of the trampolines; at sites->table */
#define KR_SYS_OWN 0x5000ULL      /* the stub page with another beginning; at KR_OWN_BASE */
#define KR_SYS_SITES 0x10000ULL   /* the trampolines; at KR_OWN_SITES */
#define KR_SYS_SOCKETS 0x40000ULL /* guest/socketpage.h, up to 0x80000; mapped when first used */

/* Pages of a vCPU, offsets from the vCPU's area. The call page follows the stub, so that the stub can reach it
 * RIP-relative. */
#define KR_VCPU_FIRST 0x100000ULL
#define KR_VCPUS_LOW ((KR_SYS_SIZE - KR_VCPU_FIRST) / KR_VCPU_SIZE) /* in the system area's first part */
#define KR_VCPU_AREA(idx)                                                                                    \
    ((idx) < KR_VCPUS_LOW ? KR_VCPU_FIRST + (u64)(idx)*KR_VCPU_SIZE                                          \
                          : KR_SYS_MORE + ((u64)(idx)-KR_VCPUS_LOW) * KR_VCPU_SIZE)
#define KR_VCPU_SIZE 0x8000ULL
#define KR_VCPU_STUB 0x0000ULL
#define KR_VCPU_CALL 0x1000ULL
#define KR_VCPU_TSS 0x2000ULL
#define KR_VCPU_IST 0x3000ULL  /* one page; the stack starts at its end */
#define KR_VCPU_DF 0x4000ULL   /* the stack of #DF */
#define KR_VCPU_FACT 0x5000ULL /* guest/callpage.h; mapped only if calls are completed */
#define KR_MAX_VCPUS (KR_VCPUS_LOW + KR_SYS_MORE_SIZE / KR_VCPU_SIZE)

#define KR_PT_GPA (KR_SYS_GPA + KR_SYS_SIZE)
#define KR_PT_FIRST 0x200000ULL /* the pool's first part: 512 table pages, of 1 GiB in small pages */
#define KR_PT_SLOT 0x1000000ULL /* 16 MiB: 4096 table pages */
#define KR_PT_SLOTS_MAX 208     /* the first part included; the second part of the system area must follow */
#define KR_PT_REACH(slots) (KR_PT_FIRST + ((slots)-1) * KR_PT_SLOT) /* bytes of the pool with so many slots */

_Static_assert(KR_HOST_SYS + KR_HOST_SYS_SPREAD + KR_SYS_MORE + KR_SYS_MORE_SIZE < KR_HOST_LOW,
               "system area and table pool end below what the kernel places");
_Static_assert((KR_SYS_SIZE - KR_SYS_FIRST) % KR_SYS_STEP == 0 && KR_SYS_MORE_SIZE % KR_SYS_STEP == 0,
               "each part of the system area is mapped in whole steps");

#define KR_CHUNK_SHIFT 26
#define KR_CHUNK_SIZE (1ULL << KR_CHUNK_SHIFT)
#define KR_CHUNKS (KR_WINDOW_END >> KR_CHUNK_SHIFT)
#define KR_CHUNK_GPA 0x100000000ULL
#define KR_CHUNK_PARTS 16  /* 4 MiB: what a slot covers at least */
#define KR_SMALL_CHUNKS 8u /* so many chunks get slots by parts; the others at once */
_Static_assert(KR_SYS_GPA + KR_SYS_MORE + KR_SYS_MORE_SIZE < KR_CHUNK_GPA, "kr_vm_flush uses the last page");
#define KR_SLOTS_MAX 0x8000u /* KVM on x86 has fewer (KVM_MEM_SLOTS_NUM) */

/* Selectors. They are those of Linux, because a payload can read them. STAR is derived from them. */
#define KR_KERNEL_CS 0x10
#define KR_KERNEL_SS 0x18
#define KR_USER_SS 0x2b
#define KR_USER_CS 0x33
#define KR_TSS_SEL 0x40

/* The port of all exits. With KVM_X86_QUIRK_OUT_7E_INC_RIP, RIP is behind the OUT on every back end. */
#define KR_PORT 0x7e

#endif
