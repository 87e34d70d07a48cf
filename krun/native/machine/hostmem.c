/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's memory calls that name an address; each checks the range itself. See hostmem.h. No state.
 */
#include "hostmem.h"
#include "../lib/kr_guard.h"
#include "../lib/kr_linux.h"
#include "usercopy.h"

/* The kernel rounds the length of a mapping of huge pages up to their size, and such a mapping begins at a
 * multiple of that size. So a mapping that begins in the window also ends in it. */
_Static_assert(KR_WINDOW_END % (1ULL << 30) == 0, "a huge page does not cross the window's end");

/* Whether all of [addr, addr+len) lies in the window. addr must be a multiple of the page size. */
static int inside(u64 addr, u64 len) {
    return addr >= KR_WINDOW_START && addr < KR_WINDOW_END && len && len <= KR_WINDOW_END - addr &&
           !(addr & (KR_PAGE - 1));
}

long kr_host_map(u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    if (!inside(addr, len))
        return -EFAULT;
    if (prot & ~(u32)(PROT_READ | PROT_WRITE))
        return -EACCES;
    if (!(flags & MAP_FIXED_NOREPLACE))
        flags |= MAP_FIXED;
    return kr_sys6(__NR_mmap, addr, len, prot, flags, (u64)(s64)fd, off);
}

long kr_host_unmap(u64 addr, u64 len) {
    return inside(addr, len) ? kr_sys2(__NR_munmap, addr, len) : -EFAULT;
}

long kr_host_protect(u64 addr, u64 len, u32 prot) {
    if (!inside(addr, len))
        return -EFAULT;
    if (prot & ~(u32)(PROT_READ | PROT_WRITE))
        return -EACCES;
    return kr_sys3(__NR_mprotect, addr, len, prot);
}

long kr_host_remap(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to) {
    u32 move = MREMAP_MAYMOVE | MREMAP_FIXED;
    /* With old_len 0 mremap(2) makes a second mapping of shared pages. */
    if (!inside(old, KR_MAX(old_len, KR_PAGE)))
        return -EFAULT;
    if (flags ? (flags & move) != move || (flags & ~(move | MREMAP_DONTUNMAP)) || !inside(to, new_len)
              : !inside(old, new_len))
        return -EFAULT;
    return kr_sys5(__NR_mremap, old, old_len, new_len, flags, to);
}

long kr_host_file_pages(u64 addr, u64 len, u64 page) {
    return inside(addr, len) ? kr_sys5(__NR_remap_file_pages, addr, len, 0, page, 0) : -EFAULT;
}

long kr_host_advise(u64 addr, u64 len, int advice) {
    return inside(addr, len) ? kr_sys3(__NR_madvise, addr, len, advice) : -EFAULT;
}

long kr_host_mlock(u64 addr, u64 len, u32 flags) {
    return inside(addr, len) ? kr_sys3(__NR_mlock2, addr, len, flags) : -EFAULT;
}

long kr_host_may_lock(void) { return kr_sys3(__NR_mlock2, 0, 0, 0); }

long kr_host_munlock(u64 addr, u64 len) {
    return inside(addr, len) ? kr_sys2(__NR_munlock, addr, len) : -EFAULT;
}

long kr_host_mincore(u64 addr, u64 len, u8 *vec) {
    return inside(addr, len) ? kr_sys3(__NR_mincore, addr, len, vec) : -EFAULT;
}

long kr_host_forward(long nr, const u64 a[6]) {
    switch (nr) {
    case __NR_msync:
    case __NR_mincore:
    case __NR_mlock:
    case __NR_mlock2:
    case __NR_munlock:
    case __NR_mbind:
        break;
    default:
        return -ENOSYS;
    }
    /* These calls skip holes, so the guard gap behind the window alone does not stop them. */
    u64 start = KR_PAGE_DOWN(a[0]), len = a[1] + (a[0] - start);
    if (len < a[1] || !kr_span_ok(start, len) || !kr_span_ok(start, KR_PAGE_UP(len)))
        return -ENOMEM;
    return kr_call_intr(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* struct shmid64_ds: ipc64_perm (48 bytes), then the size. */
struct shmid_k {
    u8 perm[48];
    u64 size;
    u8 rest[56];
};
_Static_assert(sizeof(struct shmid_k) == 112, "struct shmid64_ds");

long kr_host_segment(s32 id, u64 *len) {
    struct shmid_k ds;
    long r = kr_sys3(__NR_shmctl, id, IPC_STAT, &ds);
    if (r < 0)
        return r;
    *len = KR_PAGE_UP(ds.size);
    return *len && ds.size <= *len ? 0 : -ENOMEM;
}

long kr_host_attach(s32 id, u64 addr, u32 flags, u64 *len) {
    if (!inside(addr, KR_PAGE))
        return -EFAULT;
    /* Without SHM_REMAP the kernel refuses if anything is mapped in the range (do_shmat() in ipc/shm.c). It
     * compares with the size that it then maps. The fence behind the window counts like any other mapping. */
    long r = kr_sys3(__NR_shmat, id, addr, flags & SHM_RDONLY);
    if (r < 0)
        return r;
    /* An attached segment lives, so that the id still names this segment. */
    long e = r == (long)addr ? kr_host_segment(id, len) : -EINVAL;
    if (!e && !inside(addr, *len))
        e = -ENOMEM;
    if (!e)
        return r;
    kr_sys1(__NR_shmdt, r); /* the kernel knows the size */
    return e;
}

static long reserve(u64 addr, u64 len) {
    return kr_sys6(__NR_mmap, addr, len, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (u64)-1, 0);
}

long kr_host_take_window(int *counted) {
    /* The kernel first looks whether a mapping is in the way, and counts for RLIMIT_AS afterwards (do_mmap(),
     * mmap_region() in mm/mmap.c). */
    u64 len = KR_HOST_LOW - KR_WINDOW_START;
    long p = reserve(KR_WINDOW_START, len);
    *counted = p != -ENOMEM;
    if (p < 0 && *counted)
        return p;
    if (p >= 0)
        kr_sys2(__NR_munmap, p, len);
    if (p >= 0 && p != (long)KR_WINDOW_START)
        return -EEXIST;
    p = reserve(KR_WINDOW_END, KR_PAGE);
    if (p != (long)KR_WINDOW_END)
        return p < 0 ? p : -EEXIST;
    kr_host_seal(KR_WINDOW_END, KR_PAGE);
    return 0;
}

void kr_host_seal(u64 addr, u64 len) {
    if (addr >= KR_WINDOW_END) /* kr_mm_seal seals the payload's own mappings, in the array only */
        kr_sys3(__NR_mseal, addr, len, 0);
}

int kr_host_empty_path(void) {
    /* Shared: /proc/PID/mem writes read-only memory if it is private (check_vma_flags() in mm/gup.c). */
    long p = kr_sys6(__NR_mmap, KR_EMPTY_PATH, KR_PAGE, PROT_READ,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (u64)-1, 0);
    if (p < 0)
        return (int)p;
    kr_host_seal(KR_EMPTY_PATH, KR_PAGE);
    return 0;
}

int kr_host_back(u8 *at, u64 size, int again) {
    u64 addr = (u64)at;
    if (addr < KR_HOST_SYS || size > KR_HOST_LOW - KR_HOST_SYS || addr > KR_HOST_LOW - size)
        return -EFAULT;
    long p = kr_sys6(__NR_mmap, addr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (u64)-1, 0);
    if (p < 0 && !(again && p == -EEXIST))
        return (int)p;
    kr_guard_memory(addr, size); /* before the seal, which would refuse the key */
    kr_host_seal(addr, size);
    return 0;
}
