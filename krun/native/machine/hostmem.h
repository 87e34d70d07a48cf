/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's calls that get an address of the payload's memory, or a fixed address at all: mmap(2) and
 * relatives. This is the only file that may make them (tests/unit/test_memory_calls.py reads the sources);
 * each function looks itself whether the whole range, rounded to pages, lies in the window. What does not is
 * -EFAULT, whatever a caller has checked before: nothing of the monitor's can be replaced, moved or unmapped.
 *
 * All return what the system call returns, addresses and lengths are in bytes. No state, no locks: who keeps
 * books of the window (machine/mm.c) holds mm->lock.
 */
#ifndef KR_HOSTMEM_H
#define KR_HOSTMEM_H

#include "vmm.h"

/* mmap(2) at addr, in place of what is there, or with MAP_FIXED_NOREPLACE in flags only where nothing is.
 * PROT_EXEC is -EACCES. */
long kr_host_map(u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off);
long kr_host_unmap(u64 addr, u64 len);
long kr_host_protect(u64 addr, u64 len, u32 prot);

/* mremap(2). flags MREMAP_MAYMOVE | MREMAP_FIXED (and MREMAP_DONTUNMAP): to `to`. flags 0: grows in place.
 * Others are -EFAULT: the kernel would choose the place. */
long kr_host_remap(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to);
long kr_host_file_pages(u64 addr, u64 len, u64 page); /* remap_file_pages(2) */
long kr_host_advise(u64 addr, u64 len, int advice);   /* madvise(2) */
long kr_host_mlock(u64 addr, u64 len, u32 flags);     /* mlock2(2) */
long kr_host_munlock(u64 addr, u64 len);
long kr_host_mincore(u64 addr, u64 len, u8 *vec);

/* msync, mincore, mlock, mlock2, munlock, mbind of the payload, by number: as kr_call_intr, with the range
 * a[0], a[1]. -ENOMEM (what an unmapped range gives) outside the window. */
long kr_host_forward(long nr, const u64 a[6]);

/* shmat(2) at addr, where nothing may be mapped from addr on for the segment's whole size: the kernel itself
 * compares, with the size that it then maps (SHM_REMAP is never passed). Then *len is that size, rounded to
 * pages, as an attached segment has it, whose id nobody else can get. A segment that reaches beyond the
 * window is detached again: -ENOMEM. -EINVAL: something is in the way. */
long kr_host_attach(s32 id, u64 addr, u32 flags, u64 *len);
/* The size of segment id, rounded to pages, for the choice of a place: a hint, it may be another segment by
 * the time of the attachment. 0 or -errno. */
long kr_host_segment(s32 id, u64 *len);

/* Fresh memory of the monitor's own at a place in the system area's range (KR_HOST_SYS), sealed. 0 or -errno.
 */
int kr_host_back(u8 *at, u64 size);

/* Takes the window, at start, before anything is mapped there: looks whether nothing at all is mapped in
 * [KR_WINDOW_START, KR_HOST_LOW), and puts a fence of one page behind the window's end, sealed, so that
 * nothing grows or is attached across it. *counted: 0 when RLIMIT_AS is too small for the kernel's answer to
 * be had without doubt. 0; -EEXIST: something is mapped; or another -errno. */
long kr_host_take_window(int *counted);

/* Maps KR_EMPTY_PATH: a page of zeros that nothing can write, sealed. 0 or -errno. */
int kr_host_empty_path(void);

/* mseal(2), best effort (Linux 6.10): what lies there is never unmapped, moved, replaced or protected
 * otherwise. For memory of the monitor's that stays for the life of the process. */
void kr_host_seal(u64 addr, u64 len);

#endif
