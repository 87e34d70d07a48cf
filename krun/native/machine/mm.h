/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's address space: an ordered array of mappings, mirrored by host mappings at the same addresses
 * (machine/mm.c) and by the guest's page tables (machine/pt.c). docs/memory.md.
 *
 * Everything here takes mm->lock itself unless it says "locked".
 */
#ifndef KR_MM_H
#define KR_MM_H

#include "vmm.h"
#include "vm.h"

#define KR_VMA_SHARED 1u
#define KR_VMA_ANON 2u
#define KR_VMA_STACK 4u /* the main stack */
#define KR_VMA_HEAP 8u  /* brk */
#define KR_VMA_GROWSDOWN 16u
#define KR_VMA_VDSO 32u
#define KR_VMA_DONTFORK 64u
#define KR_VMA_IMAGE 128u  /* a private mapping that a loader made (MAP_DENYWRITE) */
#define KR_VMA_SEALED 256u /* mseal(2) */

struct kr_vma {
    u64 start, end;
    u32 prot;  /* PROT_* as the payload sees it */
    u32 flags; /* KR_VMA_* */
};

struct kr_mm {
    struct kr_lock lock;
    struct kr_vm vm;    /* the VM, its slots and vCPUs (vm.h) */
    struct kr_vma *vma; /* sorted by start, disjoint */
    u32 nvma, vma_room;
    u64 brk_start, brk_end; /* brk_end: the current break, not rounded */
    u64 mmap_top;           /* search for free space goes down from here */
    u64 stack_start, stack_end;
    u64 code_start, code_end, data_start, data_end; /* for PR_SET_MM_MAP */
    u64 arg_start, arg_end, env_start, env_end, auxv_addr;
    u32 auxv_size;
    u64 vdso;
    u32 lock_future;    /* mlockall(MCL_FUTURE): 1 locked, 2 on fault */
    struct kr_aio *aio; /* AIO contexts (sys/aio.c) */
    u32 relatives; /* processes made with CLONE_VM that run on this mm: no robust lists (process/robust.h) */
    struct kr_task *tasks; /* all threads that run on this mm */
};

/* First mapping with end > addr, or NULL. Locked. */
struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr);

/* mmap(2). flags are the payload's; the host call has PROT_EXEC removed and MAP_FIXED added. Address or
 * -errno. */
long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off);
long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len);
long kr_mm_mprotect(struct kr_mm *mm, u64 addr, u64 len, u32 prot);
long kr_mm_mremap(struct kr_mm *mm, u64 old, u64 old_len, u64 new_len, u32 flags, u64 new_addr);
long kr_mm_madvise(struct kr_mm *mm, u64 addr, u64 len, int advice);
long kr_mm_brk(struct kr_mm *mm, u64 brk);
/* mseal(2): the range can no longer be unmapped, moved, replaced or protected otherwise. */
long kr_mm_seal(struct kr_mm *mm, u64 addr, u64 len);
/* remap_file_pages(2): pages of a shared mapping's file from `page` on, in place of [addr, addr + len). */
long kr_mm_remap_file(struct kr_mm *mm, u64 addr, u64 len, u64 page);

/* Maps anonymous memory at a place of the loader's choice; used by elf.c and stack.c. vma_flags are added. */
long kr_mm_anon(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags);

/* shmat(2) of segment id at addr (page-aligned; 0: a place of our choice), with replace in place of what is
 * there. The address, with the segment's size in *len, or -errno. */
long kr_mm_attach(struct kr_mm *mm, s32 id, u64 addr, int replace, u32 prot, u64 *len);

/* Records a host mapping that exists already inside the window (the vDSO) and maps it for the guest. Locked
 * by itself. */
long kr_mm_adopt(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags);
/* Free range of len bytes, aligned; 0 if none. Locked. */
u64 kr_mm_find_free(struct kr_mm *mm, u64 len, u64 align);

/* A guest #PF at addr with the CPU's error code. 0: repaired, run on. Otherwise the si_code for SIGSEGV
 * (SEGV_MAPERR, SEGV_ACCERR), or KR_FAULT_BUS for SIGBUS. */
#define KR_FAULT_BUS (-1)
int kr_mm_fault(struct kr_mm *mm, u64 addr, u64 error);

/* After KVM_RUN = -EFAULT without an address: finds the guest address that the host refuses, by running on
 * from an empty page table that is filled page by page (probe.c). 0: nothing is refused any more. */
u64 kr_probe_fault(struct kr_task *t);

/* In a fork child: drops the mappings that MADV_DONTFORK kept out of it. Locked by the caller. */
void kr_mm_after_fork(struct kr_mm *mm);

/* A random number below max (not 0), for places of the monitor's own. */
u64 kr_random(u64 max);
/* The same for the payload's layout: 0 where its personality has ADDR_NO_RANDOMIZE. */
u64 kr_mm_random(u64 max);

#endif
