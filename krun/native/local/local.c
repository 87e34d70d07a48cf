/* SPDX-License-Identifier: Apache-2.0
 *
 * Before and after the guest: what its code may complete, what it has completed. See local.h.
 *
 * State: t->local, and the fact page and call page of t's vCPU, which belong to the thread. Two parts belong to other
 * threads, too: `generation` (atomic) and the word `on` of the fact page, which another thread only clears.
 */
#include "local.h"
#include "../abi/boot.h"
#include "../machine/site.h"
#include "../machine/usercopy.h"
#include "../process/trace.h"
#include <linux/seccomp.h>

/* A count of one KVM_RUN above this is not believed. */
#define MOST_AT_ONCE (1ULL << 32)

static void off(struct kr_task *t) {
    __atomic_store_n(&kr_fact_page(&t->mm->vm, t->vcpu->idx)->on, 0, __ATOMIC_SEQ_CST);
}

/* The trace and the counts of calls are complete: they turn completion off. So does `krun trace`, if it asks for such calls, and
 * strict mode, because it kills. */
static int may_complete(const struct kr_task *t) {
    return kr_vm_entry(&t->mm->vm) == KR_ENTRY_RING3 && !kr_trace_on &&
           !(t->local.watch & KR_OBSERVEF_EXITS) &&
           __atomic_load_n(&t->seccomp_mode, __ATOMIC_ACQUIRE) != SECCOMP_MODE_STRICT;
}

void kr_local_decide(struct kr_task *t) {
    struct kr_fact_page *f = kr_fact_page(&t->mm->vm, t->vcpu->idx);
    u32 seen;
    do {
        seen = __atomic_load_n(&t->local.generation, __ATOMIC_SEQ_CST);
        t->local.watch = kr_observe_word();
        off(t);
        kr_local_sample(t);
        t->local.ways =
            may_complete(t) ? kr_local_facts(t, f) | kr_local_actions(t, f) | kr_local_sockets(t, f) : 0;
        if (t->local.ways && (!(t->proc->flags & KR_BOOTF_RANDOM) || kr_random(2)))
            __atomic_store_n(&f->on, 1, __ATOMIC_SEQ_CST);
        /* Another thread changes the filters first, then the generation, and clears `on` last (kr_local_changed). */
    } while (__atomic_load_n(&t->local.generation, __ATOMIC_SEQ_CST) != seen);
    if (t->proc->flags & KR_BOOTF_RANDOM) /* the same for the interrupt window */
        t->window.share = kr_random(2) ? KR_WINDOW_ALL : 0;
    /* The next entry decides anew in tests, and until the kind of the back end is known. */
    if (!(t->proc->flags & KR_BOOTF_RANDOM) && kr_vm_entry(&t->mm->vm) != KR_ENTRY_UNKNOWN)
        t->local.decided = seen;
}

/* Adds to *sum what a counter of the call page has grown by. */
static u64 settle(volatile const u64 *counter, u64 *seen, u64 *sum) {
    u64 now = *counter, grown = now - *seen;
    *seen = now;
    if (grown && grown <= MOST_AT_ONCE)
        __atomic_fetch_add(sum, grown, __ATOMIC_RELAXED);
    return grown;
}

static void count(struct kr_task *t, volatile const struct kr_call_page *c) {
    struct kr_local_counts *sum = &t->proc->calls;
    u64 completed = 0;
    for (u32 way = KR_WAY_FACT; way <= KR_WAY_FILE; way++) {
        completed += settle((volatile const u64 *)&c->done[way], &t->local.done[way], &sum->done[way]);
        settle((volatile const u64 *)&c->declined[way], &t->local.declined[way], &sum->declined[way]);
    }
    /* The window does not come between a patched site and the code. But where answers are valid until the next exit only
     * (ways behind ACTION), the thread must not ask: the window ends KVM_RUN in the middle of a turn, too. */
    u64 patched = settle(&kr_patched_page(&t->mm->vm, t->vcpu->idx)->calls, &t->local.patched, &sum->patched);
    if (!(t->local.ways >> (KR_WAY_ACTION + 1)))
        completed -= KR_MIN(patched, completed);
    kr_window_completed(&t->window, (u32)KR_MIN(completed, (u64)KR_WINDOW_MEMORY));
}

/* The registers of the engine's code at `base`, where it is at `place`. */
static void repair_engine(struct kr_task *t, volatile const struct kr_call_page *c, u64 base,
                          enum kr_place place) {
    struct kr_vm *vm = &t->mm->vm;
    struct kvm_regs *r = kr_regs(t);
    u64 save[16];
    for (u32 i = 0; i < KR_COUNT(save); i++)
        save[i] = c->save[i];
    if (place == KR_PLACE_POST) {
        u64 post = c->post; /* the payload's, as the address is */
        kr_copy_out(c->post_at, &post, sizeof post);
        place = KR_PLACE_AFTER;
    }
    if (place == KR_PLACE_AFTER) {
        kr_engine_end(save, c->result, r);
        r->rip = r->rcx = kr_site_return(vm, r->rcx);
    } else if (place == KR_PLACE_PATCHED) {
        kr_engine_undo_patched(save, kr_patched_page(vm, t->vcpu->idx)->rsp, base, r);
    } else {
        kr_engine_undo(save, base, r);
    }
}

/* Ends or undoes the call at whose code r stands. */
static enum kr_place repair(struct kr_task *t, volatile const struct kr_call_page *c) {
    struct kr_vm *vm = &t->mm->vm;
    struct kvm_regs *r = kr_regs(t);
    enum kr_place place;
    if (vm->sites && kr_local_is_own(r->rip)) {
        place = r->rip >= KR_OWN_SITES ? kr_site_place(vm, r) : kr_engine_place(KR_OWN_BASE, r->rip);
        if (place == KR_PLACE_ELSE)
            return place;
        if (r->rip - KR_OWN_BASE < KR_PAGE)
            repair_engine(t, c, KR_OWN_BASE, place);
    } else {
        place = kr_engine_place(t->vcpu->stub, r->rip);
        if (place == KR_PLACE_ELSE || place == KR_PLACE_OUT)
            return place;
        repair_engine(t, c, t->vcpu->stub, place);
    }
    if (place == KR_PLACE_POST)
        place = KR_PLACE_AFTER;
    if (place != KR_PLACE_AFTER)
        r->rip = t->vcpu->stub + KR_EO_OUT;
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
    /* Own: the page begins with the jump to the exit. */
    return place == KR_PLACE_PATCHED || place == KR_PLACE_OUT ? KR_PLACE_BEFORE : place;
}

enum kr_place kr_local_left(struct kr_task *t) {
    volatile struct kr_call_page *c = kr_call_page(&t->mm->vm, t->vcpu->idx);
    count(t, c);
    if (t->local.ways & 1u << KR_WAY_ACTION)
        kr_local_take_actions(t, c);
    if (t->mm->sockets)
        kr_sockets_left(t);
    if (t->run->exit_reason ==
        KVM_EXIT_IO) /* the exit itself, or an instruction that ring 3 has found in the code */
        return kr_engine_place(t->vcpu->stub, kr_regs(t)->rip);
    return repair(t, c);
}

enum kr_place kr_local_fault(struct kr_task *t) { return repair(t, kr_call_page(&t->mm->vm, t->vcpu->idx)); }

void kr_local_served(struct kr_task *t, u64 nr, long ret) {
    const struct kr_sys_row *row = kr_sys_row((u32)nr);
    u32 way = row ? row->way : KR_WAY_NONE;
    int own = (int)(t->local.ways >> way & 1);
    if (way >= KR_WAY_READ) /* the same calls are made for files */
        own &= (int)t->local.named_own;
    t->local.named_own = 0;
    kr_window_count(&t->window, own);
    kr_sockets_served(t, nr, ret);
    if (own && ret != -KR_ERESTART)
        kr_local_hot(t, nr);
    else if (way >= KR_WAY_READ && t->vcpu)
        kr_local_sample(t); /* the sample was of a file */
    if (way == KR_WAY_CHANGES)
        __atomic_add_fetch(&t->local.generation, 1, __ATOMIC_RELEASE);
}

void kr_local_after_fork(struct kr_task *t) {
    memset(&t->proc->calls, 0, sizeof t->proc->calls);
    __atomic_add_fetch(&t->local.generation, 1, __ATOMIC_RELEASE);
}
