/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's address space: mmap(2) and relatives.
 *
 * Three things are kept in step under mm->lock: the ordered array of mappings, the host's mappings at the
 * same addresses (never executable on the host), and the guest's page tables. Order of a change that takes
 * permissions away or replaces pages: first the page tables, then the host call, whose MMU notifier drops
 * what KVM has cached. A host call that fails is followed by a refill of the tables from the array.
 *
 * Small mappings enter the page tables at once; large ones when first touched, in blocks of 2 MiB
 * (kr_mm_fault), so that a huge reservation costs nothing. A block of private anonymous memory whose
 * neighbour is in use already gets a huge page of the host and one 2 MiB entry: dense use, one fault instead
 * of 512. A lone first block (a thread's stack, a sparse table) never does.
 */
#include "mm.h"
#include "hostmem.h"
#include "usercopy.h"
#include "warm.h"
#include <linux/mman.h>
#include <linux/personality.h>
#include <asm/siginfo.h>

#define EAGER (16ULL << 20)
#define EAGER_ANON (2ULL << 20)
#define BLOCK (2ULL << 20)
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define MADV_GUARD_INSTALL_K 102
#define MADV_GUARD_REMOVE_K 103
#define SHM_RDONLY 010000
#define STACK_GUARD_GAP (256 * KR_PAGE)

/* What the host maps: never executable; an execute-only page must be readable for the instruction fetch. */
static u32 host_prot(u32 prot) {
    u32 p = prot & (PROT_READ | PROT_WRITE);
    return prot & (PROT_WRITE | PROT_EXEC) ? p | PROT_READ : p;
}

/* ---- the array ---- */

/* Index of the first mapping with end > addr. */
static u32 lower(struct kr_mm *mm, u64 addr) {
    u32 lo = 0, hi = mm->nvma;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (mm->vma[mid].end <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct kr_vma *kr_vma_find(struct kr_mm *mm, u64 addr) {
    u32 i = lower(mm, addr);
    return i < mm->nvma ? &mm->vma[i] : NULL;
}

/* Room for `more` entries beyond nvma. Taken before any change, so that a change cannot fail half-way. */
static int reserve_entries(struct kr_mm *mm, u32 more) {
    if (mm->nvma + more <= mm->vma_room)
        return 0;
    u32 room = KR_MAX(mm->vma_room * 2, 128u);
    struct kr_vma *v = kr_realloc(mm->vma, mm->vma_room * sizeof *v, room * sizeof *v);
    if (!v)
        return -ENOMEM;
    mm->vma = v;
    mm->vma_room = room;
    return 0;
}

static void insert_at(struct kr_mm *mm, u32 i, struct kr_vma v) {
    memmove(&mm->vma[i + 1], &mm->vma[i], (mm->nvma - i) * sizeof v);
    mm->vma[i] = v;
    mm->nvma++;
}

static void remove_at(struct kr_mm *mm, u32 i, u32 n) {
    memmove(&mm->vma[i], &mm->vma[i + n], (mm->nvma - i - n) * sizeof mm->vma[0]);
    mm->nvma -= n;
}

/* Makes addr a border between mappings. Needs one reserved entry. */
static void split(struct kr_mm *mm, u64 addr) {
    u32 i = lower(mm, addr);
    if (i == mm->nvma || mm->vma[i].start >= addr)
        return;
    struct kr_vma tail = mm->vma[i];
    tail.start = addr;
    mm->vma[i].end = addr;
    insert_at(mm, i + 1, tail);
}

static void cut(struct kr_mm *mm, u64 start, u64 end) {
    split(mm, start);
    split(mm, end);
    u32 i = lower(mm, start), j = i;
    while (j < mm->nvma && mm->vma[j].end <= end)
        j++;
    remove_at(mm, i, j - i);
}

static int alike(const struct kr_vma *a, const struct kr_vma *b) {
    return a->end == b->start && a->prot == b->prot && a->flags == b->flags && (a->flags & KR_VMA_ANON);
}

static void merge_around(struct kr_mm *mm, u64 start, u64 end) {
    u32 i = lower(mm, start ? start - 1 : 0);
    while (i + 1 < mm->nvma && mm->vma[i].start <= end) {
        if (alike(&mm->vma[i], &mm->vma[i + 1])) {
            mm->vma[i].end = mm->vma[i + 1].end;
            remove_at(mm, i + 1, 1);
        } else {
            i++;
        }
    }
}

static void insert(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 flags) {
    insert_at(mm, lower(mm, start), (struct kr_vma){start, end, prot, flags});
    merge_around(mm, start, end);
}

/* ---- page tables ---- */

static int fill(struct kr_mm *mm, u64 start, u64 end, u32 prot) {
    if (!host_prot(prot))
        return kr_pt_update(&mm->vm, start, end, 0, 0);
    for (u64 c = start & ~(KR_CHUNK_SIZE - 1); c < end; c += KR_CHUNK_SIZE) {
        int r = kr_vm_chunk(&mm->vm, c);
        if (r < 0)
            return r;
    }
    return kr_pt_update(&mm->vm, start, end, prot, 1);
}

/* After a change of [start, end) to prot: small ranges at once, large ones where tables exist already. */
static int reflect(struct kr_mm *mm, u64 start, u64 end, u32 prot, u32 vma_flags) {
    if (end - start <= ((vma_flags & KR_VMA_ANON) && (prot & PROT_WRITE) ? EAGER_ANON : EAGER))
        return fill(mm, start, end, prot);
    return kr_pt_update(&mm->vm, start, end, prot, 0);
}

static void refill(struct kr_mm *mm, u64 start, u64 end) {
    for (u32 i = lower(mm, start); i < mm->nvma && mm->vma[i].start < end; i++)
        reflect(mm, KR_MAX(start, mm->vma[i].start), KR_MIN(end, mm->vma[i].end), mm->vma[i].prot,
                mm->vma[i].flags);
}

/* ---- address choice ---- */

static u64 find_below(struct kr_mm *mm, u64 top, u64 len, u64 align) {
    u64 low = KR_WINDOW_START;
    for (u32 i = lower(mm, top);; i--) {
        /* gap between vma[i-1] and vma[i], cut at top */
        u64 gap_end = i < mm->nvma ? KR_MIN(mm->vma[i].start, top) : top;
        u64 gap_start = i ? mm->vma[i - 1].end : low;
        if (i < mm->nvma && (mm->vma[i].flags & (KR_VMA_GROWSDOWN | KR_VMA_STACK)) &&
            gap_end == mm->vma[i].start)
            gap_end = gap_end > STACK_GUARD_GAP ? gap_end - STACK_GUARD_GAP : 0;
        gap_start = KR_MAX(gap_start, low);
        if (gap_end >= len && gap_end > gap_start) {
            u64 a = (gap_end - len) & ~(align - 1);
            if (a >= gap_start)
                return a;
        }
        if (!i)
            return 0;
    }
}

u64 kr_mm_find_free(struct kr_mm *mm, u64 len, u64 align) {
    u64 a = find_below(mm, mm->mmap_top, len, align);
    return a ? a : find_below(mm, KR_WINDOW_END, len, align);
}

static int range_free(struct kr_mm *mm, u64 addr, u64 len) {
    u32 i = lower(mm, addr);
    return i == mm->nvma || mm->vma[i].start >= addr + len;
}

static int in_window(u64 addr, u64 len) {
    return addr >= KR_WINDOW_START && addr < KR_WINDOW_END && len <= KR_WINDOW_END - addr;
}

/* Where the first sealed part of [addr, end) begins; end if there is none. */
static u64 sealed_from(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if (mm->vma[i].flags & KR_VMA_SEALED)
            return KR_MAX(addr, mm->vma[i].start);
    return end;
}

static int sealed(struct kr_mm *mm, u64 addr, u64 len) {
    return sealed_from(mm, addr, addr + len) < addr + len;
}

/* ---- the calls; "locked" ones first ---- */

static long unmap_locked(struct kr_mm *mm, u64 addr, u64 len) {
    if (reserve_entries(mm, 2) < 0)
        return -ENOMEM;
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < addr + len;
         i++) /* not the gaps: they may be wide */
        kr_pt_update(&mm->vm, KR_MAX(addr, mm->vma[i].start), KR_MIN(addr + len, mm->vma[i].end), 0, 0);
    long r = kr_host_unmap(addr, len);
    if (r < 0) {
        refill(mm, addr, addr + len);
        return r;
    }
    cut(mm, addr, addr + len);
    return 0;
}

/* Places a host mapping over [addr, addr+len), whatever was there. */
static long map_locked(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off,
                       u32 vma_flags) {
    if (!in_window(addr, len))
        return -ENOMEM;
    if (reserve_entries(mm, 3) < 0)
        return -ENOMEM;
    kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
    u32 host_flags = flags & ~(u32)(MAP_FIXED_NOREPLACE | MAP_32BIT);
    if (len > EAGER && (flags & MAP_ANONYMOUS) && !(prot & (PROT_READ | PROT_WRITE | PROT_EXEC)))
        host_flags |= MAP_NORESERVE; /* a reservation: no commit charge */
    long r = kr_host_map(addr, len, host_prot(prot), host_flags, fd, off);
    if (r < 0) {
        refill(mm, addr, addr + len);
        return r;
    }
    if (mm->lock_future && host_prot(prot))
        kr_host_mlock(addr, len, mm->lock_future == 2 ? MLOCK_ONFAULT : 0);
    kr_warm_map(mm, addr, len, prot, flags, vma_flags);
    cut(mm, addr, addr + len);
    insert(mm, addr, addr + len, prot, vma_flags);
    r = reflect(mm, addr, addr + len, prot, vma_flags);
    if (r < 0) {
        unmap_locked(mm, addr, len);
        return -ENOMEM;
    }
    return (long)addr;
}

/* PROT_EXEC of a file on a noexec mount is EPERM (mmap(2)); the host call does not see PROT_EXEC. */
static long check_exec(int fd) {
    struct {
        s64 type, bsize, blocks, bfree, bavail, files, ffree;
        s32 fsid[2];
        s64 namelen, frsize, flags, spare[4];
    } st;
    long r = kr_sys2(__NR_fstatfs, fd, &st);
    if (r < 0)
        return r;
    return st.flags & 8 /* ST_NOEXEC */ ? -EPERM : 0;
}

/* The size of the huge pages that flags ask for. The host is told it: left to choose, it would round the
 * length up to the default of its command line. */
static u64 huge_size(u32 *flags) {
    u32 shift = *flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    if (!shift) {
        *flags |= MAP_HUGE_2MB;
        return BLOCK;
    }
    return 1ULL << shift;
}

long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    if (!len || (off & (KR_PAGE - 1)))
        return -EINVAL;
    u64 align = KR_PAGE;
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
    if (fixed && !in_window(addr, len))
        return addr < KR_WINDOW_START ? -EPERM : -ENOMEM;
    if (!(flags & MAP_ANONYMOUS) && (prot & PROT_EXEC)) {
        long r = check_exec(fd);
        if (r < 0)
            return r;
    }
    u32 type = flags & MAP_TYPE;
    u32 vma_flags = (type == MAP_SHARED || type == MAP_SHARED_VALIDATE ? KR_VMA_SHARED : 0) |
                    (flags & MAP_ANONYMOUS ? KR_VMA_ANON : 0) |
                    (flags & MAP_GROWSDOWN ? KR_VMA_GROWSDOWN : 0) |
                    (type == MAP_PRIVATE && (flags & MAP_DENYWRITE) ? KR_VMA_IMAGE : 0);
    long r;
    kr_lock(&mm->lock);
    if (!fixed) {
        u64 hint = addr & ~(align - 1);
        addr = 0;
        if (hint && in_window(hint, len) && range_free(mm, hint, len))
            addr = hint;
        else if (flags & MAP_32BIT)
            addr = find_below(mm, 0x80000000ULL, len, align);
        else
            addr = kr_mm_find_free(mm, len, len >= BLOCK && (flags & MAP_ANONYMOUS) ? BLOCK : align);
    }
    if (!addr)
        r = -ENOMEM;
    else if ((flags & MAP_FIXED_NOREPLACE) && !range_free(mm, addr, len))
        r = -EEXIST;
    else if (fixed && sealed(mm, addr, len))
        r = -EPERM;
    else
        r = map_locked(mm, addr, len, prot & 7, flags, flags & MAP_ANONYMOUS ? -1 : fd, off, vma_flags);
    kr_unlock(&mm->lock);
    return r;
}

long kr_mm_anon(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags) {
    kr_lock(&mm->lock);
    long r = map_locked(mm, addr, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | (len > EAGER ? MAP_NORESERVE : 0),
                        -1, 0, KR_VMA_ANON | vma_flags);
    kr_unlock(&mm->lock);
    return r;
}

long kr_mm_adopt(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 vma_flags) {
    if (!in_window(addr, len))
        return -ENOMEM;
    kr_lock(&mm->lock);
    long r = reserve_entries(mm, 3);
    if (!r) {
        cut(mm, addr, addr + len);
        insert(mm, addr, addr + len, prot, vma_flags);
        r = reflect(mm, addr, addr + len, prot, vma_flags);
    }
    kr_unlock(&mm->lock);
    return r;
}

/* A segment that was just attached at `at` goes to addr, in place of what is there. */
static long replace_by(struct kr_mm *mm, u64 at, u64 len, u64 addr) {
    if (!in_window(addr, len))
        return -EINVAL;
    if (sealed(mm, addr, len))
        return -EPERM;
    kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
    long r = kr_host_remap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, addr);
    if (r < 0)
        refill(mm, addr, addr + len);
    else
        cut(mm, addr, addr + len);
    return r;
}

long kr_mm_attach(struct kr_mm *mm, s32 id, u64 addr, int replace, u32 prot, u64 *len) {
    u64 hint;
    long r = kr_host_segment(id, &hint);
    if (r < 0)
        return r;
    if (addr && !in_window(addr, hint))
        return addr < KR_WINDOW_START || addr >= KR_WINDOW_END ? -EINVAL : -ENOMEM;
    kr_lock(&mm->lock);
    u64 at = addr && !replace ? addr : kr_mm_find_free(mm, hint, KR_PAGE);
    if (!at || reserve_entries(mm, 3) < 0)
        r = -ENOMEM;
    else if (!range_free(mm, at, hint))
        r = -EINVAL;
    else
        r = kr_host_attach(id, at, prot & PROT_WRITE ? 0 : SHM_RDONLY, len);
    if (r >= 0) {
        if (!range_free(mm, at, *len))
            r = -EINVAL;
        else if (addr && replace)
            r = replace_by(mm, at, *len, addr);
        if (r < 0)
            kr_host_unmap(at, *len);
    }
    if (r >= 0) {
        at = (u64)r;
        insert(mm, at, at + *len, prot, KR_VMA_SHARED);
        if (reflect(mm, at, at + *len, prot, KR_VMA_SHARED) < 0) {
            unmap_locked(mm, at, *len);
            r = -ENOMEM;
        }
    }
    kr_unlock(&mm->lock);
    return r;
}

long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len) {
    if ((addr & (KR_PAGE - 1)) || addr > KR_TASK_SIZE || len > KR_TASK_SIZE - addr || !len)
        return -EINVAL;
    /* What lies outside the window is not the payload's: nothing is mapped there. */
    u64 end = KR_MIN(addr + KR_PAGE_UP(len), KR_WINDOW_END);
    addr = KR_MAX(addr, KR_WINDOW_START);
    if (addr >= end)
        return 0;
    kr_lock(&mm->lock);
    long r = range_free(mm, addr, end - addr) ? 0
             : sealed(mm, addr, end - addr)   ? -EPERM
                                              : unmap_locked(mm, addr, end - addr);
    kr_unlock(&mm->lock);
    return r;
}

/* End of the part of [addr, end) that is mapped without a hole from addr on. */
static u64 mapped_until(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = lower(mm, addr); addr < end; i++) {
        if (i == mm->nvma || mm->vma[i].start > addr)
            return addr;
        addr = mm->vma[i].end;
    }
    return end;
}

static int range_mapped(struct kr_mm *mm, u64 addr, u64 end) { return mapped_until(mm, addr, end) == end; }

long kr_mm_mprotect(struct kr_mm *mm, u64 addr, u64 len, u32 prot) {
    u32 grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    prot &= ~(u32)(PROT_GROWSDOWN | PROT_GROWSUP);
    if ((addr & (KR_PAGE - 1)) || (prot & ~7u & ~(u32)PROT_SEM))
        return -EINVAL;
    prot &= 7;
    if (!len)
        return 0;
    len = KR_PAGE_UP(len);
    if (!len || !in_window(addr, len))
        return -ENOMEM;
    kr_lock(&mm->lock);
    long r = -ENOMEM;
    if (grows & PROT_GROWSDOWN) { /* from the start of the (stack) mapping that holds addr */
        struct kr_vma *v = kr_vma_find(mm, addr);
        if (v && v->start <= addr) {
            len += addr - v->start;
            addr = v->start;
        }
    }
    u64 end = addr + len, hole = mapped_until(mm, addr, end), seal = sealed_from(mm, addr, end);
    long result = hole < end ? -ENOMEM : 0; /* what lies before the hole is changed all the same */
    if (seal < hole) {
        hole = seal;
        result = r = -EPERM;
    }
    if (hole == addr)
        goto out;
    if (reserve_entries(mm, 2) < 0) {
        r = -ENOMEM;
        goto out;
    }
    end = hole;
    len = end - addr;
    int lost_exec_only = 0;
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if ((mm->vma[i].prot & PROT_EXEC) && !(prot & PROT_EXEC) && host_prot(prot) &&
            host_prot(prot) == host_prot(mm->vma[i].prot))
            lost_exec_only = 1;
    /* Tables first where rights go, host first where they come: a page whose table allows more than the host
     * gives only costs a retry (kr_mm_fault finds nothing wrong), so one order serves both. */
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        reflect(mm, KR_MAX(addr, mm->vma[i].start), KR_MIN(end, mm->vma[i].end), prot, mm->vma[i].flags);
    r = kr_host_protect(addr, len, host_prot(prot));
    if (r < 0) {
        refill(mm, addr, end);
        goto out;
    }
    split(mm, addr);
    split(mm, end);
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        mm->vma[i].prot = prot;
    merge_around(mm, addr, end);
    if (lost_exec_only) /* the host saw no change, so no notifier ran: drop translations ourselves */
        kr_vm_flush(&mm->vm);
    r = result;
out:
    kr_unlock(&mm->lock);
    return r;
}

/* Moves the first part of [from, from+left) that one host mapping holds: a block, or less where mappings meet
 * inside it. Before Linux 6.17 a move may not cross them. Bytes moved, or -errno. */
static long move_some(u64 from, u64 left, u32 flags, u64 to) {
    u64 n = KR_MIN(BLOCK - (from & (BLOCK - 1)), left);
    for (;;) {
        long r = kr_host_remap(from, n, n, flags, to);
        if (r >= 0)
            return (long)n;
        if (r != -EFAULT || n <= KR_PAGE)
            return r;
        n = KR_PAGE_UP(n / 2);
    }
}

/* The host's mremap to a fixed place. The host may hold in several mappings what is one here, because huge
 * pages are asked for by the block (kr_mm_fault), and refuses to move those together (EFAULT): then block by
 * block. */
static long host_move(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to) {
    flags |= MREMAP_MAYMOVE | MREMAP_FIXED;
    long r = kr_host_remap(old, old_len, new_len, flags, to);
    if (r != -EFAULT || old_len <= KR_PAGE)
        return r;
    u64 len = KR_MIN(old_len, new_len), done = 0, back = 0;
    kr_host_unmap(to, new_len);
    for (r = 0; r >= 0 && done < len; done += r < 0 ? 0 : (u64)r)
        r = move_some(old + done, len - done, flags, to + done);
    if (r >= 0 && new_len > len)
        r = kr_host_remap(to + len - KR_PAGE, KR_PAGE, KR_PAGE + new_len - len, 0, 0);
    if (r >= 0) {
        if (old_len > len)
            kr_host_unmap(old + len, old_len - len);
        return (long)to;
    }
    for (long n = 1; done && n > 0;
         done -= n > 0 ? (u64)n : 0) { /* no memory: back with what had gone, from its start */
        u64 at = back;
        n = move_some(to + at, done, MREMAP_MAYMOVE | MREMAP_FIXED, old + at);
        back += n > 0 ? (u64)n : 0;
    }
    return r;
}

static long mremap_locked(struct kr_mm *mm, u64 old, u64 old_len, u64 new_len, u32 flags, u64 new_addr) {
    struct kr_vma *v = kr_vma_find(mm, old);
    if (!v || v->start > old)
        return -EFAULT;
    struct kr_vma src = *v;
    if (reserve_entries(mm, 5) < 0)
        return -ENOMEM;
    u64 span = KR_MAX(old_len, KR_PAGE);
    if (old + span > src.end &&
        old_len) /* crosses into another mapping; the array merges only what the host merges, too */
        return -EFAULT;
    if ((src.flags & KR_VMA_SEALED) || ((flags & MREMAP_FIXED) && sealed(mm, new_addr, new_len)))
        return -EPERM;
    if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
        if (new_len <= old_len) {
            if (new_len < old_len) {
                long r = unmap_locked(mm, old + new_len, old_len - new_len);
                if (r < 0)
                    return r;
            }
            return (long)old;
        }
        if (old_len && old + old_len == src.end && in_window(old, new_len) &&
            range_free(mm, src.end, new_len - old_len)) {
            /* The last page stands for all: see host_move(). */
            u64 last = src.end - KR_PAGE;
            if (kr_host_remap(last, KR_PAGE, KR_PAGE + new_len - old_len, 0, 0) == (long)last) {
                insert(mm, src.end, old + new_len, src.prot, src.flags);
                /* a file mapping is not merged by insert(): make it one, as the host's is */
                u32 i = lower(mm, old);
                if (i + 1 < mm->nvma && mm->vma[i].end == mm->vma[i + 1].start &&
                    mm->vma[i + 1].end == old + new_len) {
                    mm->vma[i].end = old + new_len;
                    remove_at(mm, i + 1, 1);
                }
                return reflect(mm, old + old_len, old + new_len, src.prot, src.flags) < 0 ? -ENOMEM
                                                                                          : (long)old;
            }
        }
        if (!(flags & MREMAP_MAYMOVE))
            return -ENOMEM;
    }
    if (!(flags & MREMAP_FIXED)) {
        new_addr = kr_mm_find_free(mm, new_len, KR_PAGE);
        if (!new_addr)
            return -ENOMEM;
    }
    kr_pt_update(&mm->vm, new_addr, new_addr + new_len, 0, 0);
    kr_pt_update(&mm->vm, old, old + old_len, 0, 0);
    long r = host_move(old, old_len, new_len, flags, new_addr);
    if (r < 0) {
        refill(mm, old, old + old_len);
        refill(mm, new_addr, new_addr + new_len);
        return r;
    }
    cut(mm, new_addr, new_addr + new_len);
    if (flags & MREMAP_DONTUNMAP)
        reflect(mm, old, old + old_len, src.prot, src.flags);
    else if (old_len)
        cut(mm, old, old + old_len);
    insert(mm, new_addr, new_addr + new_len, src.prot, src.flags);
    return reflect(mm, new_addr, new_addr + new_len, src.prot, src.flags) < 0 ? -ENOMEM : (long)new_addr;
}

long kr_mm_mremap(struct kr_mm *mm, u64 old, u64 old_len, u64 new_len, u32 flags, u64 new_addr) {
    if ((flags & ~(u32)(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)) || (old & (KR_PAGE - 1)) ||
        !new_len)
        return -EINVAL;
    if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) && !(flags & MREMAP_MAYMOVE))
        return -EINVAL;
    if (old_len > KR_WINDOW_END || new_len > KR_WINDOW_END)
        return -EINVAL;
    old_len = KR_PAGE_UP(old_len);
    new_len = KR_PAGE_UP(new_len);
    if ((flags & MREMAP_DONTUNMAP) && old_len != new_len)
        return -EINVAL;
    if (!in_window(old, KR_MAX(old_len, KR_PAGE)))
        return -EFAULT;
    if (flags & MREMAP_FIXED) {
        if ((new_addr & (KR_PAGE - 1)) || !in_window(new_addr, new_len))
            return -EINVAL;
        if (old + old_len > new_addr && new_addr + new_len > old)
            return -EINVAL;
    }
    kr_lock(&mm->lock);
    long r = mremap_locked(mm, old, old_len, new_len, flags, new_addr);
    kr_unlock(&mm->lock);
    return r;
}

long kr_mm_seal(struct kr_mm *mm, u64 addr, u64 len) {
    long r = kr_sys3(462 /* mseal */, 0, 0, 0); /* does the host's kernel have it? */
    if (r < 0)
        return r;
    u64 n = KR_PAGE_UP(len);
    if ((addr & (KR_PAGE - 1)) || n < len || addr + n < addr)
        return -EINVAL;
    if (!n)
        return 0;
    if (!in_window(addr, n))
        return -ENOMEM;
    kr_lock(&mm->lock);
    r = -ENOMEM;
    if (range_mapped(mm, addr, addr + n) && !reserve_entries(mm, 2)) {
        split(mm, addr);
        split(mm, addr + n);
        for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < addr + n; i++)
            mm->vma[i].flags |= KR_VMA_SEALED;
        merge_around(mm, addr, addr + n);
        r = 0;
    }
    kr_unlock(&mm->lock);
    return r;
}

long kr_mm_remap_file(struct kr_mm *mm, u64 addr, u64 len, u64 page) {
    if (!in_window(addr, len))
        return -EINVAL;
    kr_lock(&mm->lock);
    struct kr_vma *v = kr_vma_find(mm, addr);
    long r = -EINVAL;
    if (v && v->start <= addr && addr + len <= v->end && (v->flags & KR_VMA_SHARED)) {
        if (v->flags & KR_VMA_SEALED) {
            r = -EPERM;
        } else {
            kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
            r = kr_host_file_pages(addr, len, page);
            refill(mm, addr, addr + len);
        }
    }
    kr_unlock(&mm->lock);
    return r;
}

/* Advice that loses what is in the memory. */
static int discards(int advice) {
    switch (advice) {
    case MADV_DONTNEED:
    case 24: /* MADV_DONTNEED_LOCKED */
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_WIPEONFORK:
    case MADV_GUARD_INSTALL_K:
        return 1;
    }
    return 0;
}

/* End of the part of [addr, end) up to sealed private memory that its owner may not write, either: to discard
 * it would change it. Locked. */
static u64 may_discard_until(struct kr_mm *mm, u64 addr, u64 end) {
    for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if ((mm->vma[i].flags & (KR_VMA_SEALED | KR_VMA_SHARED)) == KR_VMA_SEALED &&
            !(mm->vma[i].prot & PROT_WRITE))
            return KR_MAX(addr, mm->vma[i].start);
    return end;
}

long kr_mm_madvise(struct kr_mm *mm, u64 addr, u64 len, int advice) {
    if (addr & (KR_PAGE - 1))
        return -EINVAL;
    if (len > KR_WINDOW_END)
        return -EINVAL;
    len = KR_PAGE_UP(len);
    switch (advice) {
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_WILLNEED:
    case MADV_DONTNEED: /* the host's zap reaches KVM through the notifier; tables stay as they are */
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_COLD:
    case MADV_PAGEOUT:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
    case MADV_GUARD_INSTALL_K: /* a touch is a fault of the host's, too: host_fault() in run.c */
    case MADV_GUARD_REMOVE_K:
    case 24: /* MADV_DONTNEED_LOCKED */
    case 25: /* MADV_COLLAPSE */
        break;
    case MADV_DONTFORK:
    case MADV_DOFORK:
        break;
    default:
        return -EINVAL; /* MADV_HWPOISON and MADV_SOFT_OFFLINE among them: never ours to do */
    }
    if (!len)
        return 0;
    if (!in_window(addr, len))
        return -ENOMEM;
    if (discards(advice)) {
        kr_lock(&mm->lock);
        u64 end = may_discard_until(mm, addr, addr + len);
        kr_unlock(&mm->lock);
        if (end < addr + len) {
            long r = end > addr ? kr_mm_madvise(mm, addr, end - addr, advice) : 0;
            return r ? r : -EPERM;
        }
    }
    if (advice == MADV_DONTFORK || advice == MADV_DOFORK) {
        kr_lock(&mm->lock);
        long r = -ENOMEM;
        if (!reserve_entries(mm, 2) && range_mapped(mm, addr, addr + len)) {
            r = kr_host_advise(addr, len, advice);
            if (!r) {
                split(mm, addr);
                split(mm, addr + len);
                for (u32 i = lower(mm, addr); i < mm->nvma && mm->vma[i].start < addr + len; i++) {
                    if (advice == MADV_DONTFORK)
                        mm->vma[i].flags |= KR_VMA_DONTFORK;
                    else
                        mm->vma[i].flags &= ~KR_VMA_DONTFORK;
                }
                merge_around(mm, addr, addr + len);
            }
        }
        kr_unlock(&mm->lock);
        return r;
    }
    return kr_host_advise(addr, len, advice);
}

void kr_mm_after_fork(struct kr_mm *mm) {
    for (u32 i = 0; i < mm->nvma;) {
        if (mm->vma[i].flags & KR_VMA_DONTFORK) {
            kr_pt_update(&mm->vm, mm->vma[i].start, mm->vma[i].end, 0, 0);
            remove_at(mm, i, 1);
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
        if (!range_free(mm, old, new - old + KR_PAGE) || !in_window(old, new - old))
            goto out;
        if (map_locked(mm, old, new - old, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0,
                       KR_VMA_ANON | KR_VMA_HEAP) < 0)
            goto out;
    } else if (new < old && (sealed(mm, new, old - new) || unmap_locked(mm, new, old - new) < 0)) {
        goto out;
    }
    mm->brk_end = brk;
out:
    brk = mm->brk_end;
    kr_unlock(&mm->lock);
    return (long)brk;
}

/* A MAP_GROWSDOWN mapping above addr may grow down to it (mmap(2)); the main stack is mapped whole. The
 * host's mapping grows by itself when it is touched, as it does when the kernel writes there for a system
 * call; the array follows. Locked. */
static struct kr_vma *grow_down(struct kr_mm *mm, u64 addr) {
    u32 i = lower(mm, addr), seen;
    if (i == mm->nvma || !(mm->vma[i].flags & KR_VMA_GROWSDOWN) || mm->vma[i].start <= addr ||
        reserve_entries(mm, 2) < 0)
        return NULL;
    struct kr_vma v = mm->vma[i];
    u64 start = KR_PAGE_DOWN(addr);
    if (start < KR_WINDOW_START || (i && mm->vma[i - 1].end > start) || !(v.prot & PROT_WRITE) ||
        kr_cas32_raw((u32 *)start, 0, 0, &seen) < 0)
        return NULL;
    insert(mm, start, v.start, v.prot, v.flags);
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
    if (!host_prot(v->prot) || (v->prot & need) != need)
        goto out;
    r = 0;
    u64 pte = kr_pt_get(&mm->vm, addr);
    if ((pte & KR_PTE_P) && (!(need & PROT_WRITE) || (pte & KR_PTE_W)) &&
        (!(need & PROT_EXEC) || !(pte & KR_PTE_NX)))
        goto out; /* another thread was faster, or KVM showed a stale translation: run on */
    u64 block = addr & ~(BLOCK - 1);
    if ((v->flags & (KR_VMA_ANON | KR_VMA_SHARED)) == KR_VMA_ANON && (v->prot & PROT_WRITE) &&
        v->start <= block && v->end >= block + BLOCK &&
        ((block > v->start && kr_pt_touched(&mm->vm, block - 1)) ||
         (block + BLOCK < v->end && kr_pt_touched(&mm->vm, block + BLOCK))) &&
        kr_vm_chunk(&mm->vm, block) == 0 && !kr_pt_touched(&mm->vm, block) &&
        kr_pt_leaf(&mm->vm, block, v->prot)) {
        if (kr_host_advise(block, BLOCK, MADV_HUGEPAGE) == 0)
            kr_host_advise(block, BLOCK,
                           MADV_POPULATE_WRITE); /* best effort: KVM's own fault does the same */
        goto out;
    }
    for (u32 i = lower(mm, block); i < mm->nvma && mm->vma[i].start < block + BLOCK; i++)
        if (fill(mm, KR_MAX(block, mm->vma[i].start), KR_MIN(block + BLOCK, mm->vma[i].end),
                 mm->vma[i].prot) < 0)
            r = KR_FAULT_BUS;
out:
    kr_unlock(&mm->lock);
    return r;
}

u64 kr_random(u64 max) {
    u64 v = 0;
    kr_sys3(__NR_getrandom, &v, sizeof v, 0);
    return max ? v % max : 0;
}

u64 kr_mm_random(u64 max) { return kr_boot.personality & ADDR_NO_RANDOMIZE ? 0 : kr_random(max); }
