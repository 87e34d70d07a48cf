/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's address space: mmap(2), munmap(2), brk(2), shmat(2), and page faults. remap.c and advise.c
 * change mappings that exist.
 *
 * Three things are kept in step under mm->lock: the ordered array of mappings (vma.h), the host's mappings at
 * the same addresses, and the guest's page tables. The host's mappings are never executable. A change that
 * takes rights away or replaces pages goes in this order:
 *
 *   1. the page tables
 *   2. the host call, whose MMU notifier drops what KVM has cached
 *   3. if the host call failed: the page tables again, from the array
 *
 * A small mapping enters the page tables at once. A large one enters them when it is touched, in blocks of
 * 2 MiB (kr_mm_fault), so that a huge reservation costs nothing. A block of private anonymous memory gets a
 * huge page of the host and one 2 MiB entry if a neighbouring block is in use: memory that is used densely
 * then costs one fault instead of 512. A first block without such a neighbour (a sparse table) never gets one, nor
 * does a thread's stack, nor memory with MADV_NOHUGEPAGE (KR_VMA_SMALL).
 */
#include "../lib/kr_linux.h"
#include "vma.h"
#include "hostmem.h"
#include "segment.h"
#include "site.h"
#include "usercopy.h"
#include "warm.h"
#include <linux/magic.h>
#include <linux/personality.h>
#include <asm/siginfo.h>

long kr_mm_unmap_locked(struct kr_mm *mm, u64 addr, u64 len) {
    const struct kr_change change = {.kind = KR_CHANGE_UNMAP, .start = addr, .end = addr + len};
    if (kr_change_begin(mm, &change, 2) < 0)
        return -ENOMEM;
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < addr + len;
         i++) /* gaps are left out, because they may be wide */
        kr_pt_update(&mm->vm, KR_MAX(addr, mm->vma[i].start), KR_MIN(addr + len, mm->vma[i].end), 0, 0);
    long r = kr_host_unmap(addr, len);
    if (r < 0) {
        kr_mm_refill(mm, addr, addr + len);
        return r;
    }
    kr_sites_forget(mm, addr, addr + len);
    kr_vma_cut(mm, addr, addr + len);
    return 0;
}

/* Places a host mapping over [addr, addr+len), whatever was there. Locked, until kr_mm_release. */
static long map_locked(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off,
                       u32 vma_flags) {
    if (!kr_in_window(addr, len) || kr_sites_make_room(mm, addr, addr + len) < 0)
        return -ENOMEM;
    u32 host_flags = flags & ~(u32)(MAP_FIXED_NOREPLACE | MAP_32BIT);
    if (len > KR_EAGER && (flags & MAP_ANONYMOUS) && !(prot & (PROT_READ | PROT_WRITE | PROT_EXEC)))
        host_flags |= MAP_NORESERVE; /* a reservation: no commit charge */
    int locks = mm->lock_future && kr_mm_host_prot(prot);
    if (locks && mm->lock_future == 1)
        host_flags |= MAP_LOCKED; /* so the kernel looks at RLIMIT_MEMLOCK before it replaces anything */
    const struct kr_change change = {.kind = kr_vma_range_free(mm, addr, len) ? KR_CHANGE_FRESH
                                             : flags & MAP_ANONYMOUS          ? KR_CHANGE_ANON
                                                                              : KR_CHANGE_REPLACE,
                                     .prot = prot,
                                     .flags = vma_flags,
                                     .host_flags = host_flags,
                                     .start = addr,
                                     .end = addr + len};
    if (kr_change_begin(mm, &change, 3) < 0)
        return -ENOMEM;
    kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
    long r = kr_host_map(addr, len, kr_mm_host_prot(prot), host_flags, fd, off);
    if (r < 0) {
        kr_mm_refill(mm, addr, addr + len);
        return r == -EPERM && locks && !(flags & MAP_LOCKED) ? -EAGAIN : r; /* the limit has become 0 */
    }
    if (locks && mm->lock_future == 2 && kr_host_mlock(addr, len, MLOCK_ONFAULT) < 0 &&
        change.kind ==
            KR_CHANGE_FRESH) { /* else what was there is gone: the mapping stays, without the lock */
        kr_mm_unmap_locked(mm, addr, len);
        return -EAGAIN; /* mlock_future_ok() in the kernel */
    }
    kr_sites_forget(mm, addr, addr + len);
    kr_warm_map(mm, addr, len, prot, flags, vma_flags);
    kr_vma_cut(mm, addr, addr + len);
    kr_vma_insert(mm, addr, addr + len, prot, vma_flags);
    r = kr_mm_reflect(mm, addr, addr + len, prot, vma_flags);
    if (r < 0) {
        kr_mm_unmap_locked(mm, addr, len);
        return -ENOMEM;
    }
    return (long)addr;
}

/* What the file system of fd asks of a mapping. 0, or -EPERM for PROT_EXEC of a file on a noexec mount (mmap(2)), because the host call does
 * not see PROT_EXEC. *align: for a file of hugetlbfs, the size of its pages. Such a mapping begins at a multiple of
 * it, and the kernel rounds its length up (ksys_mmap_pgoff() in mm/mmap.c), so the array has to know. */
static long check_file(int fd, u32 prot, u64 *align) {
    struct statfs st;
    long r = kr_sys2(__NR_fstatfs, fd, &st);
    if (r < 0)
        return prot & PROT_EXEC ? r : 0;
    u64 size = (u64)st.f_bsize;
    if (st.f_type == HUGETLBFS_MAGIC && size >= KR_PAGE && !(size & (size - 1)))
        *align = size;
    return (prot & PROT_EXEC) && (st.f_flags & ST_NOEXEC) ? -EPERM : 0;
}

/* The size of the huge pages that flags ask for. If flags name none, *flags gets the 2 MiB size: the kernel
 * would else take the default size of its command line and round the length up to that. */
static u64 huge_size(u32 *flags) {
    u32 shift = *flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    if (!shift) {
        *flags |= MAP_HUGE_2MB;
        return KR_BLOCK;
    }
    return 1ULL << shift;
}

long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    if (!len || (off & (KR_PAGE - 1)))
        return -EINVAL;
    u64 align = KR_PAGE;
    long r = flags & MAP_ANONYMOUS ? 0 : check_file(fd, prot, &align);
    if ((flags & MAP_HUGETLB) && (flags & MAP_ANONYMOUS))
        align = huge_size(&flags);
    if (align < KR_PAGE)
        return -EINVAL;
    if (len > KR_WINDOW_END)
        return -ENOMEM;
    len = (len + align - 1) & ~(align - 1);
    int fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    if (fixed && (addr & (align - 1)))
        return -EINVAL;
    if (fixed && !kr_in_window(addr, len))
        return addr < KR_WINDOW_START ? -EPERM : -ENOMEM;
    if (r < 0)
        return r;
    u32 type = flags & MAP_TYPE;
    u32 vma_flags =
        (type == MAP_SHARED || type == MAP_SHARED_VALIDATE ? KR_VMA_SHARED : 0) |
        (flags & MAP_ANONYMOUS ? KR_VMA_ANON : 0) | (flags & MAP_GROWSDOWN ? KR_VMA_GROWSDOWN : 0) |
        (type == MAP_PRIVATE && (flags & MAP_DENYWRITE) ? KR_VMA_IMAGE : 0) |
        ((flags & MAP_ANONYMOUS) && (flags & MAP_STACK) ? KR_VMA_SMALL : 0) | kr_vma_page_flags(align);
    kr_lock(&mm->lock);
    if (!fixed) {
        u64 hint = addr & ~(align - 1);
        addr = 0;
        if (hint && kr_in_window(hint, len) && kr_vma_range_free(mm, hint, len))
            addr = hint;
        else if (flags & MAP_32BIT)
            addr = kr_vma_find_below(mm, 0x80000000ULL, len, align);
        else
            addr = kr_mm_find_free(
                mm, len,
                len >= KR_BLOCK && (flags & MAP_ANONYMOUS) && !(flags & MAP_STACK) ? KR_BLOCK : align);
    }
    if (!addr)
        r = -ENOMEM;
    else if ((flags & MAP_FIXED_NOREPLACE) && !kr_vma_range_free(mm, addr, len))
        r = -EEXIST;
    else if (fixed && kr_vma_sealed(mm, addr, len))
        r = -EPERM;
    else
        r = map_locked(mm, addr, len, prot & 7, flags, flags & MAP_ANONYMOUS ? -1 : fd, off, vma_flags);
    kr_mm_release(mm);
    return r;
}

long kr_mm_anon(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags) {
    kr_lock(&mm->lock);
    long r =
        map_locked(mm, addr, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | (len > KR_EAGER ? MAP_NORESERVE : 0),
                   -1, 0, KR_VMA_ANON | vma_flags);
    kr_mm_release(mm);
    return r;
}

long kr_mm_adopt(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags) {
    if (!kr_in_window(addr, len))
        return -ENOMEM;
    kr_lock(&mm->lock);
    long r = kr_change_begin(mm, &(struct kr_change){.kind = KR_CHANGE_ARRAY}, 3);
    if (!r) {
        kr_vma_cut(mm, addr, addr + len);
        kr_vma_insert(mm, addr, addr + len, prot, vma_flags);
        r = kr_mm_reflect(mm, addr, addr + len, prot, vma_flags);
    }
    kr_mm_release(mm);
    return r;
}

/* Moves the segment that has just been attached at `at` to addr, in place of what is there. Locked. */
static long replace_by(struct kr_mm *mm, u64 at, u64 len, u64 addr, u32 prot, u32 flags) {
    if (!kr_in_window(addr, len))
        return -EINVAL;
    if (kr_vma_sealed(mm, addr, len))
        return -EPERM;
    if (kr_sites_make_room(mm, addr, addr + len) < 0)
        return -ENOMEM;
    const struct kr_change change = {.kind = KR_CHANGE_MOVE,
                                     .prot = prot,
                                     .flags = flags,
                                     .host_flags = MREMAP_MAYMOVE | MREMAP_FIXED,
                                     .start = addr,
                                     .end = addr + len,
                                     .from = at,
                                     .from_end = at + len};
    kr_change_to(mm, &change);
    kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
    long r = kr_host_remap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, addr);
    if (r < 0) {
        kr_mm_refill(mm, addr, addr + len);
        return r;
    }
    kr_sites_forget(mm, addr, addr + len);
    kr_vma_cut(mm, addr, addr + len);
    return r;
}

long kr_mm_attach(struct kr_mm *mm, s32 id, u64 addr, int replace, u32 prot, u64 *len) {
    u64 hint;
    long r = kr_host_segment(id, &hint);
    if (r < 0)
        return r;
    if (addr && !kr_in_window(addr, hint))
        return addr < KR_WINDOW_START || addr >= KR_WINDOW_END ? -EINVAL : -ENOMEM;
    kr_lock(&mm->lock);
    u64 at = addr && !replace ? addr : kr_mm_find_free(mm, hint, KR_PAGE);
    const struct kr_change change = {.kind = KR_CHANGE_FRESH, .start = at, .end = at + hint};
    u32 flags = KR_VMA_SHARED, number;
    if (!at)
        r = -ENOMEM;
    else if (!kr_vma_range_free(mm, at, hint))
        r = -EINVAL;
    else if (kr_sites_make_room(mm, at, at + hint) < 0 || kr_change_begin(mm, &change, 3) < 0)
        r = -ENOMEM;
    else
        r = kr_host_attach(id, at, prot & PROT_WRITE ? 0 : SHM_RDONLY, len);
    if (r >= 0) {
        number = kr_segment_flags(mm, id, addr && replace ? addr : at, *len);
        flags |= number;
        if (!number)
            r = -ENOMEM;
        else if (!kr_vma_range_free(mm, at, *len))
            r = -EINVAL;
        else if (addr && replace)
            r = replace_by(mm, at, *len, addr, prot, flags);
        if (r < 0)
            kr_host_unmap(at, *len);
    }
    if (r >= 0) {
        at = (u64)r;
        kr_vma_insert(mm, at, at + *len, prot, flags);
        if (kr_mm_reflect(mm, at, at + *len, prot, flags) < 0) {
            kr_mm_unmap_locked(mm, at, *len);
            r = -ENOMEM;
        }
    }
    kr_mm_release(mm);
    return r;
}

/* As ksys_shmdt() in ipc/shm.c: a sealed mapping stays, and the call succeeds all the same. */
long kr_mm_detach(struct kr_mm *mm, u64 addr) {
    u32 id = ~0u;
    long r = -EINVAL;
    u64 at = addr;
    if (addr & (KR_PAGE - 1))
        return r;
    for (;;) {
        long e = 0;
        kr_lock(&mm->lock);
        struct kr_vma *v = kr_segment_find(mm, at, addr, &id);
        if (v) {
            r = 0;
            at = v->end;
            e = v->flags & KR_VMA_SEALED ? 0 : kr_mm_unmap_locked(mm, v->start, v->end - v->start);
        }
        kr_mm_release(mm);
        if (!v || e < 0)
            return v ? e : r;
    }
}

long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len) {
    if ((addr & (KR_PAGE - 1)) || addr > KR_TASK_SIZE || len > KR_TASK_SIZE - addr || !len)
        return -EINVAL;
    /* The part outside of the window holds no mapping of the payload's. */
    u64 end = KR_MIN(addr + KR_PAGE_UP(len), KR_WINDOW_END);
    addr = KR_MAX(addr, KR_WINDOW_START);
    if (addr >= end)
        return 0;
    kr_lock(&mm->lock);
    long r = kr_vma_range_free(mm, addr, end - addr) ? 0
             : kr_vma_sealed(mm, addr, end - addr)   ? -EPERM
                                                     : kr_mm_unmap_locked(mm, addr, end - addr);
    kr_mm_release(mm);
    return r;
}
void kr_mm_after_fork(struct kr_mm *mm) {
    for (u32 i = 0; i < mm->nvma;) {
        if (mm->vma[i].flags & KR_VMA_DONTFORK) {
            kr_pt_update(&mm->vm, mm->vma[i].start, mm->vma[i].end, 0, 0);
            kr_sites_forget(mm, mm->vma[i].start, mm->vma[i].end);
            kr_vma_remove(mm, i, 1);
        } else {
            i++;
        }
    }
}

long kr_mm_brk(struct kr_mm *mm, u64 brk) {
    kr_lock(&mm->lock);
    u64 old = KR_PAGE_UP(mm->brk_end), new = KR_PAGE_UP(brk);
    if (brk < mm->brk_start || brk >= KR_WINDOW_END)
        goto out;
    if (new > old) {
        const struct kr_change change = {
            .kind = KR_CHANGE_FRESH, .start = old, .end = new, .brk = mm->brk_end};
        if (!kr_vma_range_free(mm, old, new - old + KR_PAGE) || !kr_in_window(old, new - old) ||
            kr_change_begin(mm, &change, 3) < 0)
            goto out;
        if (map_locked(mm, old, new - old, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0,
                       KR_VMA_ANON | KR_VMA_HEAP) < 0)
            goto out;
    } else if (new < old) {
        const struct kr_change change = {.kind = KR_CHANGE_UNMAP, .start = new, .end = old, .brk = brk};
        if (kr_vma_sealed(mm, new, old - new) || kr_change_begin(mm, &change, 2) < 0 ||
            kr_mm_unmap_locked(mm, new, old - new) < 0)
            goto out;
    }
    mm->brk_end = brk;
out:
    brk = mm->brk_end;
    kr_mm_release(mm);
    return (long)brk;
}
/* Grows a MAP_GROWSDOWN mapping above addr down to addr (mmap(2)); the main stack is mapped whole. The host's
 * mapping grows by itself when it is touched: also when the kernel writes there for a system call. So the
 * array follows the host. The mapping; NULL: there is none to grow. Locked. */
static struct kr_vma *grow_down(struct kr_mm *mm, u64 addr) {
    u32 i = kr_vma_index(mm, addr), seen;
    if (i == mm->nvma || !(mm->vma[i].flags & KR_VMA_GROWSDOWN) || mm->vma[i].start <= addr ||
        kr_change_begin(mm, &(struct kr_change){.kind = KR_CHANGE_ARRAY}, 2) < 0)
        return NULL;
    struct kr_vma v = mm->vma[i];
    u64 start = KR_PAGE_DOWN(addr);
    if (start < KR_WINDOW_START || kr_sites_make_room(mm, start, v.start) < 0 ||
        (i && mm->vma[i - 1].end > start) || !(v.prot & PROT_WRITE) ||
        kr_cas32_raw((u32 *)start, 0, 0, &seen) < 0)
        return NULL;
    kr_vma_insert(mm, start, v.start, v.prot, v.flags);
    return kr_vma_find(mm, addr);
}

int kr_mm_fault(struct kr_mm *mm, u64 addr, u64 error) {
    if (addr >= KR_WINDOW_END)
        return SEGV_MAPERR;
    kr_lock(&mm->lock);
    int r = SEGV_MAPERR;
    struct kr_vma *v = kr_vma_find(mm, addr);
    if (!v || v->start > addr) {
        v = grow_down(mm, addr);
        if (!v)
            goto out;
    }
    u32 need = error & 2 ? PROT_WRITE : error & 16 ? PROT_EXEC : 0;
    r = SEGV_ACCERR;
    if (!kr_mm_host_prot(v->prot) || (v->prot & need) != need)
        goto out;
    r = 0;
    u64 pte = kr_pt_get(&mm->vm, addr);
    if ((pte & KR_PTE_P) && (!(need & PROT_WRITE) || (pte & KR_PTE_W)) &&
        (!(need & PROT_EXEC) || !(pte & KR_PTE_NX)))
        goto out; /* another thread was faster, or KVM used a stale translation: the guest runs on */
    u64 block = addr & ~(KR_BLOCK - 1);
    if ((v->flags & (KR_VMA_ANON | KR_VMA_SHARED | KR_VMA_SMALL)) == KR_VMA_ANON && (v->prot & PROT_WRITE) &&
        v->start <= block && v->end >= block + KR_BLOCK &&
        ((block > v->start && kr_pt_touched(&mm->vm, block - 1)) ||
         (block + KR_BLOCK < v->end && kr_pt_touched(&mm->vm, block + KR_BLOCK))) &&
        kr_vm_cover(&mm->vm, block, block + KR_BLOCK) == 0 && !kr_pt_touched(&mm->vm, block) &&
        kr_pt_leaf(&mm->vm, block, v->prot)) {
        if (kr_host_advise(block, KR_BLOCK, MADV_HUGEPAGE) == 0)
            kr_host_advise(block, KR_BLOCK,
                           MADV_POPULATE_WRITE); /* best effort: KVM's own fault does the same */
        goto out;
    }
    for (u32 i = kr_vma_index(mm, block); i < mm->nvma && mm->vma[i].start < block + KR_BLOCK; i++)
        if (kr_mm_fill(mm, KR_MAX(block, mm->vma[i].start), KR_MIN(block + KR_BLOCK, mm->vma[i].end),
                       mm->vma[i].prot) < 0)
            r = KR_FAULT_BUS;
out:
    kr_mm_release(mm);
    return r;
}

u64 kr_random(u64 max) {
    u64 v = 0;
    kr_sys3(__NR_getrandom, &v, sizeof v, 0);
    return max ? v % max : 0;
}

u64 kr_mm_random(u64 max) { return kr_boot.personality & ADDR_NO_RANDOMIZE ? 0 : kr_random(max); }
