/* SPDX-License-Identifier: Apache-2.0
 *
 * The change of the address space that is under way, and its completion by an heir.
 *
 * Processes made with CLONE_VM share the host's memory, struct kr_mm and mm->lock. SIGKILL can end one of them
 * between two steps of a change. The process that gets the lock next (lib/kr_lock.h) calls kr_mm_heir, which
 * completes the change or takes it back, so that the array, the host's mappings and the page tables agree again.
 * On Linux, too, such a call has either happened or not.
 *
 * So a change says first what it is going to do (kr_change_begin), and keeps a copy of the array. The record is
 * valid from the store of `kind` until mm->lock is given up (kr_mm_release). It is not kept while no relative
 * exists, because then all threads end together.
 *
 * State: mm->change, mm->undo, under mm->lock.
 */
#include "../lib/kr_linux.h"
#include "vma.h"
#include "hostmem.h"
#include "site.h"

static void set_kind(struct kr_mm *mm, u32 kind) {
    __atomic_store_n(&mm->change.kind, kind, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void kr_change_to(struct kr_mm *mm, const struct kr_change *c) {
    if (!mm->change.kind)
        return;
    struct kr_change record = *c;
    record.kind = KR_CHANGE_ARRAY; /* until the record is complete */
    set_kind(mm, KR_CHANGE_ARRAY);
    mm->change = record;
    set_kind(mm, c->kind);
}

int kr_change_begin(struct kr_mm *mm, const struct kr_change *c, u32 more) {
    if (kr_vma_reserve(mm, more) < 0)
        return -ENOMEM;
    if (!mm->relatives || mm->change.kind)
        return 0;
    if (mm->undo_room < mm->nvma) {
        struct kr_vma *old = mm->undo, *v = kr_alloc(mm->vma_room * sizeof *v);
        u32 room = mm->undo_room;
        if (!v)
            return -ENOMEM;
        mm->undo_room = 0;
        mm->undo = v;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        mm->undo_room = mm->vma_room;
        kr_free(old, room * sizeof *old);
    }
    if (mm->nvma)
        memcpy(mm->undo, mm->vma, mm->nvma * sizeof *mm->vma);
    mm->nundo = mm->nvma;
    struct kr_change record = *c;
    record.kind = KR_CHANGE_NONE; /* until the record is complete */
    mm->change = record;
    set_kind(mm, c->kind);
    return 0;
}

void kr_mm_release(struct kr_mm *mm) {
    set_kind(mm, KR_CHANGE_NONE);
    kr_unlock(&mm->lock);
}

/* ---- the heir ---- */

static int mapped(u64 addr) {
    u8 in;
    return kr_host_mincore(addr, KR_PAGE, &in) != -ENOMEM;
}

static void unmap(struct kr_mm *mm, const struct kr_change *c) {
    kr_pt_update(&mm->vm, c->start, c->end, 0, 0);
    kr_host_unmap(c->start, c->end - c->start);
}

static long anonymous_again(struct kr_mm *mm, const struct kr_change *c) {
    u64 len = c->end - c->start;
    kr_pt_update(&mm->vm, c->start, c->end, 0, 0);
    long r = kr_host_map(c->start, len, kr_mm_host_prot(c->prot), c->host_flags, -1, 0);
    if (r < 0)
        return r;
    kr_vma_cut(mm, c->start, c->end);
    kr_vma_insert(mm, c->start, c->end, c->prot, c->flags);
    return kr_mm_reflect(mm, c->start, c->end, c->prot, c->flags);
}

/* Completes a move. The host moves from the start of the range on, in one step or in several (kr_mm_host_move): so the
 * pages that are gone from the old place are at the new one. */
static long move_on(struct kr_mm *mm, const struct kr_change *c) {
    u64 old_len = c->from_end - c->from, new_len = c->end - c->start;
    u64 len = KR_MIN(old_len, new_len), done = 0;
    int moved;
    kr_pt_update(&mm->vm, c->start, c->end, 0, 0);
    kr_pt_update(&mm->vm, c->from, c->from_end, 0, 0);
    if (!old_len || (c->host_flags & MREMAP_DONTUNMAP)) {
        /* The old place stays mapped, so only a new place that was free tells whether the host has moved. */
        if (!kr_vma_range_free(mm, c->start, new_len))
            return -EAGAIN;
        moved = mapped(c->start);
        kr_mm_refill(mm, c->from, c->from_end);
    } else {
        while (done < len && !mapped(c->from + done))
            done += KR_PAGE;
        long r = 0;
        if (done < len)
            r = kr_mm_host_move(c->from + done, old_len - done, new_len - done, c->host_flags,
                                c->start + done);
        else if (new_len > len && !mapped(c->end - KR_PAGE))
            r = kr_host_remap(c->start + len - KR_PAGE, KR_PAGE, KR_PAGE + new_len - len, 0, 0);
        if (r < 0)
            return r;
        if (old_len > len)
            kr_host_unmap(c->from + len, old_len - len);
        kr_vma_cut(mm, c->from, c->from_end);
        moved = 1;
    }
    if (!moved)
        return 0;
    kr_vma_cut(mm, c->start, c->end);
    kr_vma_insert(mm, c->start, c->end, c->prot, c->flags);
    return kr_mm_reflect(mm, c->start, c->end, c->prot, c->flags);
}

static long complete(struct kr_mm *mm, const struct kr_change *c) {
    switch ((enum kr_change_kind)c->kind) {
    case KR_CHANGE_NONE:
    case KR_CHANGE_ARRAY:
        return 0;
    case KR_CHANGE_PAGES:
        kr_mm_refill(mm, c->start, c->end);
        return 0;
    case KR_CHANGE_FRESH:
        unmap(mm, c);
        return 0;
    case KR_CHANGE_UNMAP:
        unmap(mm, c);
        kr_vma_cut(mm, c->start, c->end);
        return 0;
    case KR_CHANGE_PROTECT:
        return kr_mm_protect_locked(mm, c->start, c->end, c->prot);
    case KR_CHANGE_ANON:
        return anonymous_again(mm, c);
    case KR_CHANGE_MOVE:
        return move_on(mm, c);
    case KR_CHANGE_REPLACE:
        break;
    }
    return -EAGAIN;
}

void kr_mm_heir(struct kr_mm *mm) {
    struct kr_change c = mm->change;
    kr_vm_heir(&mm->vm, mm->tasks);
    /* The record stays until the lock is given up: an heir that is killed leaves the same work to the next one. */
    if (c.kind) {
        if (mm->nundo)
            memcpy(mm->vma, mm->undo, mm->nundo * sizeof *mm->vma);
        mm->nvma = mm->nundo;
    }
    kr_sites_heir(mm);
    if (!c.kind)
        return;
    long r = complete(mm, &c);
    if (r < 0)
        kr_die("a process was killed inside a call that replaces the memory at 0x%lx-0x%lx, which it shares "
               "with this process (CLONE_VM): nobody knows what is there now: errno %ld",
               (unsigned long)c.start, (unsigned long)c.end, -r);
    if (c.kind == KR_CHANGE_UNMAP || c.kind == KR_CHANGE_ANON || c.kind == KR_CHANGE_MOVE)
        kr_sites_forget(mm, c.start, c.end);
    if (c.brk)
        mm->brk_end = c.brk;
    kr_vm_flush(&mm->vm);
    set_kind(mm, KR_CHANGE_NONE);
}
