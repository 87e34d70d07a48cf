/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of mappings that exist: mprotect(2), mremap(2), mseal(2), remap_file_pages(2). State: struct kr_mm,
 * under mm->lock, which each call takes. The order of a change: head of mm.c.
 */
#include "../lib/kr_linux.h"
#include "vma.h"
#include "hostmem.h"
#include "segment.h"
#include "site.h"

long kr_mm_protect_locked(struct kr_mm *mm, u64 addr, u64 end, u32 prot) {
    int lost_exec_only = 0;
    if (kr_sites_undo(mm, addr, end) < 0 && (prot & PROT_WRITE))
        return -ENOMEM; /* as the host's own call, which has the same limits */
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        if ((mm->vma[i].prot & PROT_EXEC) && !(prot & PROT_EXEC) && kr_mm_host_prot(prot) &&
            kr_mm_host_prot(prot) == kr_mm_host_prot(mm->vma[i].prot))
            lost_exec_only = 1;
    /* Rights that are taken away leave the tables first. Rights that are given could be given by the host
     * first, but a page whose table allows more than the host gives only costs a retry (kr_mm_fault finds
     * nothing wrong). So one order serves both. */
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        kr_mm_reflect(mm, KR_MAX(addr, mm->vma[i].start), KR_MIN(end, mm->vma[i].end), prot,
                      mm->vma[i].flags);
    long r = kr_host_protect(addr, end - addr, kr_mm_host_prot(prot));
    if (r < 0) {
        kr_mm_refill(mm, addr, end);
        return r;
    }
    kr_vma_split(mm, addr);
    kr_vma_split(mm, end);
    for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < end; i++)
        mm->vma[i].prot = prot;
    kr_vma_merge(mm, addr, end);
    if (lost_exec_only) /* the host saw no change, so no notifier ran */
        kr_vm_flush(&mm->vm);
    return 0;
}

long kr_mm_mprotect(struct kr_mm *mm, u64 addr, u64 len, u32 prot) {
    u32 grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    prot &= ~(u32)(PROT_GROWSDOWN | PROT_GROWSUP);
    if ((addr & (KR_PAGE - 1)) || (prot & ~7u & ~(u32)PROT_SEM))
        return -EINVAL;
    prot &= 7;
    if (!len)
        return 0;
    len = KR_PAGE_UP(len);
    if (!len || !kr_in_window(addr, len))
        return -ENOMEM;
    if (grows == (PROT_GROWSDOWN | PROT_GROWSUP))
        return -EINVAL;
    kr_lock(&mm->lock);
    if (grows) { /* from the start of the mapping that grows down; on x86 none grows up */
        struct kr_vma *v = kr_vma_find(mm, addr);
        u64 reach = grows & PROT_GROWSUP ? addr + 1 : addr + len;
        long r = !v || v->start >= reach ? -ENOMEM : 0;
        if (r == 0 && (grows & PROT_GROWSUP || !(v->flags & (KR_VMA_GROWSDOWN | KR_VMA_STACK))))
            r = -EINVAL;
        if (r < 0) {
            kr_unlock(&mm->lock);
            return r;
        }
        len = addr + len - v->start;
        addr = v->start;
    }
    u64 end = addr + len, hole = kr_vma_mapped_until(mm, addr, end), seal = kr_vma_sealed_from(mm, addr, end);
    long result = hole < end ? -ENOMEM : 0; /* the part before the hole is changed all the same */
    if (seal < hole) {
        hole = seal;
        result = -EPERM;
    }
    if (hole > addr) {
        const struct kr_change change = {.kind = KR_CHANGE_PROTECT, .prot = prot, .start = addr, .end = hole};
        long r = kr_change_begin(mm, &change, 2);
        if (r == 0)
            r = kr_mm_protect_locked(mm, addr, hole, prot);
        if (r < 0)
            result = r;
    }
    kr_mm_release(mm);
    return result;
}

/* Moves the first part of [from, from+left) that lies in one host mapping: a block, or less if mappings meet
 * inside the block. Before Linux 6.17 one move may not cross from mapping to mapping. Bytes moved, or -errno. */
static long move_some(u64 from, u64 left, u32 flags, u64 to) {
    u64 n = KR_MIN(KR_BLOCK - (from & (KR_BLOCK - 1)), left);
    for (;;) {
        long r = kr_host_remap(from, n, n, flags, to);
        if (r >= 0)
            return (long)n;
        if (r != -EFAULT || n <= KR_PAGE)
            return r;
        n = KR_PAGE_UP(n / 2);
    }
}

/* mremap(2) on the host, to a fixed place. One mapping of the array may be several on the host, because
 * kr_mm_fault asks for huge pages block by block. The host refuses to move several together (EFAULT): then
 * they are moved one by one. */
long kr_mm_host_move(u64 old, u64 old_len, u64 new_len, u32 flags, u64 to) {
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
         done -= n > 0 ? (u64)n : 0) { /* no memory: what was moved goes back, from its start */
        u64 at = back;
        n = move_some(to + at, done, MREMAP_MAYMOVE | MREMAP_FIXED, old + at);
        back += n > 0 ? (u64)n : 0;
    }
    return r;
}

/* Moves the range of the mapping src to new_addr, in place of what is there. Locked. */
static long move_to(struct kr_mm *mm, const struct kr_vma *src, u64 old, u64 old_len, u64 new_len, u32 flags,
                    u64 new_addr) {
    if (kr_sites_undo(mm, old, old + old_len) < 0 || kr_sites_make_room(mm, new_addr, new_addr + new_len) < 0)
        return -ENOMEM;
    u32 moved = src->flags;
    if (kr_segment_moves(mm, &moved, old, new_addr) < 0)
        return -ENOMEM;
    const struct kr_change change = {.kind = KR_CHANGE_MOVE,
                                     .prot = src->prot,
                                     .flags = moved,
                                     .host_flags = flags,
                                     .start = new_addr,
                                     .end = new_addr + new_len,
                                     .from = old,
                                     .from_end = old + old_len};
    if (kr_change_begin(mm, &change, 5) < 0)
        return -ENOMEM;
    kr_change_to(mm, &change); /* the range behind the mapping may have refused to grow */
    kr_pt_update(&mm->vm, new_addr, new_addr + new_len, 0, 0);
    kr_pt_update(&mm->vm, old, old + old_len, 0, 0);
    long r = kr_mm_host_move(old, old_len, new_len, flags, new_addr);
    if (r < 0) {
        kr_mm_refill(mm, old, old + old_len);
        kr_mm_refill(mm, new_addr, new_addr + new_len);
        return r;
    }
    kr_sites_forget(mm, new_addr, new_addr + new_len);
    kr_vma_cut(mm, new_addr, new_addr + new_len);
    if (flags & MREMAP_DONTUNMAP)
        kr_mm_reflect(mm, old, old + old_len, src->prot, src->flags);
    else if (old_len)
        kr_vma_cut(mm, old, old + old_len);
    kr_vma_insert(mm, new_addr, new_addr + new_len, src->prot, moved);
    return kr_mm_reflect(mm, new_addr, new_addr + new_len, src->prot, moved) < 0 ? -ENOMEM : (long)new_addr;
}

static long mremap_locked(struct kr_mm *mm, u64 old, u64 old_len, u64 new_len, u32 flags, u64 new_addr) {
    struct kr_vma *v = kr_vma_find(mm, old);
    if (!v || v->start > old)
        return -EFAULT;
    struct kr_vma src = *v;
    if (src.flags & KR_VMA_SEALED)
        return -EPERM;
    u64 page = kr_vma_page(src.flags);
    if (page > KR_PAGE) { /* what align_hugetlb() in the kernel rounds and refuses: the array has to know */
        old_len = (old_len + page - 1) & ~(page - 1);
        new_len = (new_len + page - 1) & ~(page - 1);
        if ((old | new_addr) & (page - 1) || new_len > old_len)
            return -EINVAL;
        if (!kr_in_window(old, old_len) || ((flags & MREMAP_FIXED) && !kr_in_window(new_addr, new_len)))
            return -EFAULT;
    }
    u64 span = KR_MAX(old_len, KR_PAGE);
    if (old + span > src.end && old_len) /* crosses into another mapping */
        return -EFAULT;
    if ((flags & MREMAP_FIXED) && kr_vma_sealed(mm, new_addr, new_len))
        return -EPERM;
    if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
        if (new_len <= old_len) {
            if (new_len < old_len) {
                long r = kr_mm_unmap_locked(mm, old + new_len, old_len - new_len);
                if (r < 0)
                    return r;
            }
            return (long)old;
        }
        if (old_len && old + old_len == src.end && kr_in_window(old, new_len) &&
            kr_vma_range_free(mm, src.end, new_len - old_len)) {
            /* Only the last page is named: the host may have several mappings here, see kr_mm_host_move(). */
            u64 last = src.end - KR_PAGE;
            const struct kr_change change = {.kind = KR_CHANGE_FRESH, .start = src.end, .end = old + new_len};
            if (kr_sites_make_room(mm, src.end, old + new_len) < 0 || kr_change_begin(mm, &change, 5) < 0)
                return -ENOMEM;
            if (kr_host_remap(last, KR_PAGE, KR_PAGE + new_len - old_len, 0, 0) == (long)last) {
                kr_vma_insert(mm, src.end, old + new_len, src.prot, src.flags);
                /* kr_vma_insert() does not join mappings of a file. On the host they are one: so they become one here. */
                u32 i = kr_vma_index(mm, old);
                if (i + 1 < mm->nvma && mm->vma[i].end == mm->vma[i + 1].start &&
                    mm->vma[i + 1].end == old + new_len) {
                    mm->vma[i].end = old + new_len;
                    kr_vma_remove(mm, i + 1, 1);
                }
                return kr_mm_reflect(mm, old + old_len, old + new_len, src.prot, src.flags) < 0 ? -ENOMEM
                                                                                                : (long)old;
            }
        }
        if (!(flags & MREMAP_MAYMOVE))
            return -ENOMEM;
    }
    if (!(flags & MREMAP_FIXED)) {
        new_addr = kr_mm_find_free(mm, new_len, page);
        if (!new_addr)
            return -ENOMEM;
    }
    return move_to(mm, &src, old, old_len, new_len, flags, new_addr);
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
    if (!kr_in_window(old, KR_MAX(old_len, KR_PAGE)))
        return -EFAULT;
    if (flags & MREMAP_FIXED) {
        if ((new_addr & (KR_PAGE - 1)) || !kr_in_window(new_addr, new_len))
            return -EINVAL;
        if (old + old_len > new_addr && new_addr + new_len > old)
            return -EINVAL;
    }
    kr_lock(&mm->lock);
    long r = mremap_locked(mm, old, old_len, new_len, flags, new_addr);
    kr_mm_release(mm);
    return r;
}

long kr_mm_seal(struct kr_mm *mm, u64 addr, u64 len) {
    long r = kr_sys3(__NR_mseal, 0, 0, 0); /* does the host's kernel have it? */
    if (r < 0)
        return r;
    u64 n = KR_PAGE_UP(len);
    if ((addr & (KR_PAGE - 1)) || n < len || addr + n < addr)
        return -EINVAL;
    if (!n)
        return 0;
    if (!kr_in_window(addr, n))
        return -ENOMEM;
    kr_lock(&mm->lock);
    r = -ENOMEM;
    if (kr_vma_range_mapped(mm, addr, addr + n) &&
        !kr_change_begin(mm, &(struct kr_change){.kind = KR_CHANGE_ARRAY}, 2)) {
        kr_vma_split(mm, addr);
        kr_vma_split(mm, addr + n);
        for (u32 i = kr_vma_index(mm, addr); i < mm->nvma && mm->vma[i].start < addr + n; i++)
            mm->vma[i].flags |= KR_VMA_SEALED;
        kr_vma_merge(mm, addr, addr + n);
        r = 0;
    }
    kr_mm_release(mm);
    return r;
}

long kr_mm_remap_file(struct kr_mm *mm, u64 addr, u64 len, u64 page) {
    if (!kr_in_window(addr, len))
        return -EINVAL;
    kr_lock(&mm->lock);
    struct kr_vma *v = kr_vma_find(mm, addr);
    long r = -EINVAL;
    if (v && v->start <= addr && addr + len <= v->end && (v->flags & KR_VMA_SHARED)) {
        if (v->flags & KR_VMA_SEALED) {
            r = -EPERM;
        } else {
            const struct kr_change change = {.kind = KR_CHANGE_PAGES, .start = addr, .end = addr + len};
            if (kr_change_begin(mm, &change, 0) < 0) {
                kr_mm_release(mm);
                return -ENOMEM;
            }
            kr_pt_update(&mm->vm, addr, addr + len, 0, 0);
            r = kr_host_file_pages(addr, len, page);
            kr_mm_refill(mm, addr, addr + len);
        }
    }
    kr_mm_release(mm);
    return r;
}
