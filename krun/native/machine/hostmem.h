/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory calls of the host that name an address: mmap(2) and relatives. Only this file may make them
 * (tests/unit/test_memory_calls.py reads the sources). Each function checks itself that the whole range,
 * rounded to pages, lies in the window, whatever its caller has checked. A range outside of the window is
 * -EFAULT: so no call can replace, move or unmap memory of the monitor's.
 *
 * All functions return what the system call returns. Addresses and lengths are in bytes. No state, no locks:
 * the callers that keep the array of mappings (machine/mm.c, remap.c, advise.c) hold mm->lock.
 */
#ifndef KR_HOSTMEM_H
#define KR_HOSTMEM_H

#include "vmm.h"

/* mmap(2) at addr, in place of what is there; with MAP_FIXED_NOREPLACE in flags only if nothing is there.
 * -EACCES: PROT_EXEC. */
long kr_host_map(u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off);
long kr_host_unmap(u64 addr, u64 len);
long kr_host_protect(u64 addr, u64 len, u32 prot);

/* mremap(2). flags MREMAP_MAYMOVE | MREMAP_FIXED (and MREMAP_DONTUNMAP): moves to `to`. flags 0: grows in
 * place. -EFAULT: other flags, with which the kernel would choose the place. */
long kr_host_remap(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to);
long kr_host_file_pages(u64 addr, u64 len, u64 page); /* remap_file_pages(2) */
long kr_host_advise(u64 addr, u64 len, int advice);   /* madvise(2) */
long kr_host_mlock(u64 addr, u64 len, u32 flags);     /* mlock2(2) */
/* Whether the caller may lock memory at all (can_do_mlock() in the kernel): 0 or -EPERM. */
long kr_host_may_lock(void);
long kr_host_munlock(u64 addr, u64 len);
long kr_host_mincore(u64 addr, u64 len, u8 *vec);

/* Makes the payload's call nr (msync, mincore, mlock, mlock2, munlock or mbind) with the range a[0], a[1], as
 * kr_call_intr does. -ENOMEM: the range is not in the window; an unmapped range gives the same. */
long kr_host_forward(long nr, const u64 a[6]);

/* shmat(2) at addr. *len becomes the segment's size, rounded to pages. Nothing may be mapped in that range: the
 * kernel itself compares, with the size that it then maps, because SHM_REMAP is never passed. The size is read
 * when the segment is attached: from then on no other segment can get its id. -EINVAL: something is mapped in
 * the range. -ENOMEM: the segment reached beyond the window and was detached again. */
long kr_host_attach(s32 id, u64 addr, u32 flags, u64 *len);
/* The size of segment id, rounded to pages, for the choice of a place. A hint: another segment may have the id
 * when it is attached. 0 or -errno. */
long kr_host_segment(s32 id, u64 *len);

/* Maps fresh memory of the monitor's own at a place in the range of the system area (KR_HOST_SYS), and seals it.
 * again: a process that has died may have made the mapping already, which only it counted; nothing else is ever
 * mapped in that range. 0 or -errno. */
int kr_host_back(u8 *at, u64 size, int again);

/* Takes the window at start, before anything is mapped in it. Checks that nothing is mapped in
 * [KR_WINDOW_START, KR_HOST_LOW). Maps a fence of one page behind the window's end and seals it, so that no
 * mapping grows and no segment is attached across the end. *counted: 0 if RLIMIT_AS is so small that the
 * kernel's answer is not certain; else 1. 0; -EEXIST: something is mapped; or another -errno. */
long kr_host_take_window(int *counted);

/* Maps KR_EMPTY_PATH, a read-only page of zeros, and seals it. 0 or -errno. */
int kr_host_empty_path(void);

/* mseal(2) (Linux 6.10), best effort: the range can no longer be unmapped, moved, replaced or protected
 * otherwise. For memory of the monitor's that stays for the life of the process; a range in the window is left
 * alone. */
void kr_host_seal(u64 addr, u64 len);

#endif
