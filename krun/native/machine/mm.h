/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's address space: an ordered array of mappings (vma.c). Host mappings at the same addresses (mm.c)
 * and the guest's page tables (pt.c) mirror it. docs/memory.md.
 *
 * A function takes mm->lock itself, unless its comment says "locked": then the caller holds it.
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
#define KR_VMA_IMAGE 128u    /* a private mapping that a loader made (MAP_DENYWRITE) */
#define KR_VMA_SEALED 256u   /* mseal(2) */
#define KR_VMA_SMALL 512u    /* no huge pages: MAP_STACK as in Linux 6.7, MADV_NOHUGEPAGE */
#define KR_VMA_PAGE_SHIFT 10 /* bits 10 to 15: the size of the mapping's huge pages (kr_vma_page) */
/* bits 16 to 31: of which System V segment (segment.h) */

struct kr_vma {
    u64 start, end;
    u32 prot;  /* PROT_* as the payload sees it */
    u32 flags; /* KR_VMA_* */
};

/* A change of the address space that is under way (change.c): what is done if its process dies in the middle. */
enum kr_change_kind {
    KR_CHANGE_NONE,
    KR_CHANGE_ARRAY,   /* the array only: taken back */
    KR_CHANGE_PAGES,   /* other pages at the same addresses: the page tables are filled again */
    KR_CHANGE_FRESH,   /* [start, end), which was free, becomes mapped: unmapped again */
    KR_CHANGE_UNMAP,   /* [start, end) becomes free: completed */
    KR_CHANGE_PROTECT, /* [start, end) gets prot: completed */
    KR_CHANGE_ANON,    /* [start, end) becomes anonymous memory, in place of another: completed */
    KR_CHANGE_MOVE,    /* [from, from_end) moves to [start, end): completed */
    KR_CHANGE_REPLACE, /* something else comes in place of what is there: the relatives end */
};

struct kr_change {
    u32 kind;           /* enum kr_change_kind; written last */
    u32 prot, flags;    /* PROT_*, KR_VMA_* of what comes to be */
    u32 host_flags;     /* ANON: MAP_*; MOVE: MREMAP_* */
    u64 start, end;     /* addresses, multiples of the page size */
    u64 from, from_end; /* MOVE */
    u64 brk;            /* the break afterwards; 0: it stays */
};

struct kr_mm {
    struct kr_lock lock;
    struct kr_vm vm;    /* the VM, its slots and vCPUs (vm.h) */
    struct kr_vma *vma; /* sorted by start, disjoint */
    u32 nvma, vma_room;
    struct kr_change change;
    struct kr_vma *undo; /* the array before the change */
    u32 nundo, undo_room;
    u64 brk_start, brk_end; /* brk_end: the current break, not rounded */
    u64 mmap_top;           /* the search for free space goes down from here */
    u64 stack_start, stack_end;
    u64 code_start, code_end, data_start, data_end; /* for PR_SET_MM_MAP */
    u64 arg_start, arg_end, env_start, env_end, auxv_addr;
    u32 auxv_size;
    u64 vdso;
    u32 lock_future;              /* mlockall(MCL_FUTURE): 1 locked, 2 on fault */
    struct kr_aio *aio;           /* AIO contexts (sys/aio.c) */
    struct kr_window_rows window; /* which calls of its threads are followed by a call (window.h) */
    u32 relatives; /* processes made with CLONE_VM that run on this mm: no robust lists (process/robust.h) */
    struct kr_task *tasks;      /* all threads that run on this mm */
    struct kr_sockets *sockets; /* completed calls on TCP sockets (local/sockets.h); NULL: none yet */
};

/* First mapping with end > addr, or NULL. Locked. */
struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr);

/* mmap(2). flags: the payload's. The host's mapping is made without PROT_EXEC and with MAP_FIXED. The address
 * or -errno. */
long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off);
/* munmap(2), mprotect(2), mremap(2), madvise(2), brk(2): arguments and results of the system calls. */
long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len);
long kr_mm_mprotect(struct kr_mm *mm, u64 addr, u64 len, u32 prot);
long kr_mm_mremap(struct kr_mm *mm, u64 old, u64 old_len, u64 new_len, u32 flags, u64 new_addr);
long kr_mm_madvise(struct kr_mm *mm, u64 addr, u64 len, int advice);
long kr_mm_brk(struct kr_mm *mm, u64 brk);
/* mseal(2): the range can no longer be unmapped, moved, replaced or protected otherwise. */
long kr_mm_seal(struct kr_mm *mm, u64 addr, u64 len);
/* remap_file_pages(2): maps the file of a shared mapping, from page number `page` on, at [addr, addr + len). */
long kr_mm_remap_file(struct kr_mm *mm, u64 addr, u64 len, u64 page);

/* Maps anonymous memory at addr, in place of what is there; the loader uses it. vma_flags: KR_VMA_* beside
 * KR_VMA_ANON. The address or -errno. */
long kr_mm_anon(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags);

/* shmat(2) of segment id at addr, a multiple of the page size; 0: at a free place. replace: SHM_REMAP, that is
 * in place of what is there. The address, with the segment's size in *len; or -errno. */
long kr_mm_attach(struct kr_mm *mm, s32 id, u64 addr, int replace, u32 prot, u64 *len);
/* shmdt(2). 0 or -errno. */
long kr_mm_detach(struct kr_mm *mm, u64 addr);

/* Enters a host mapping that exists in the window already (the vDSO) into the array and the page tables. 0 or
 * -errno. */
long kr_mm_adopt(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags);
/* A free range of len bytes at a multiple of align; 0 if there is none. Locked. */
u64 kr_mm_find_free(struct kr_mm *mm, u64 len, u64 align);

/* Serves a guest #PF at addr; error: the processor's error code. 0: repaired, the guest runs on. Else the
 * si_code for SIGSEGV (SEGV_MAPERR, SEGV_ACCERR), or KR_FAULT_BUS for SIGBUS. */
#define KR_FAULT_BUS (-1)
int kr_mm_fault(struct kr_mm *mm, u64 addr, u64 error);

/* After a KVM_RUN that gave -EFAULT without an address: finds the guest address that the host refuses. The
 * guest runs on with an empty page table, which is filled page by page (probe.c). 0: the host refuses none any
 * more. KR_PROBE_BLIND: there is no memory for that table. */
#define KR_PROBE_BLIND (~0ULL)
u64 kr_probe_fault(struct kr_task *t);
/* Whether the host refuses addr, which the page tables allow: the signal for the payload, with its si_code; 0: it does not. */
int kr_mm_refused(struct kr_mm *mm, u64 addr, int *code);

/* Called by the process that has got mm->lock from a dead one (lib/kr_lock.h): completes what the dead one left
 * half done, or takes it back. Ends the process if neither is possible. Locked. */
void kr_mm_heir(struct kr_mm *mm);

/* In a fork child: removes the mappings that the child does not have because of MADV_DONTFORK. Locked. */
void kr_mm_after_fork(struct kr_mm *mm);

/* A random number below max, for places of the monitor's own. 0 if max is 0. */
u64 kr_random(u64 max);
/* The same for the payload's layout: 0 if the payload's personality has ADDR_NO_RANDOMIZE. */
u64 kr_mm_random(u64 max);

#endif
