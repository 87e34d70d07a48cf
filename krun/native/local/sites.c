/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sites are patched, and the returns of their calls: see local.h and machine/site.h.
 *
 * A site is worth it if the guest's code completes its calls often. The monitor sees the address of a call only at an
 * exit. So each exit of a call that could have been completed counts, and where nothing exits, one completed call of
 * SAMPLE is left to the exit (KR_PP_SAMPLE), and counts for more. A payload that writes the sample's counter makes
 * its own calls slower.
 *
 * State: t->local.hot, .site, .sample, which belong to the thread.
 */
#include "local.h"
#include "../abi/boot.h"
#include "../machine/site.h"
#include "../process/bury.h"
#include "../process/quiesce.h"
#include "../process/trace.h"

#define SAMPLE 128u       /* completed calls for one that exits */
#define SAMPLE_MAX 65536u /* ... once the site is known not to be patchable */
#define WEIGHT 4u         /* calls that are completed weigh as much as one exit */
#define ENOUGH 256u
#define ENOUGH_RANDOM 4u /* in tests */
#define NEVER (~0u)
#define PATIENCE 20000000ULL /* ns, for the other threads to stand */

void kr_local_sample(struct kr_task *t) {
    volatile struct kr_patched *p = kr_patched_page(&t->mm->vm, t->vcpu->idx);
    if (!t->local.sample)
        t->local.sample = SAMPLE;
    if (!p->sample)
        p->sample = t->local.sample;
}

/* The site's row, or that of the site which counts least. Not by a hash: two busy sites with one row would keep each other from
 * the count that is enough. */
static struct kr_local_hot *hot(struct kr_task *t, u64 ret) {
    struct kr_local_hot *least = &t->local.hot[0];
    for (u32 i = 0; i < KR_COUNT(t->local.hot); i++) {
        struct kr_local_hot *h = &t->local.hot[i];
        if (h->ret == ret)
            return h;
        if (h->count < least->count)
            least = h;
    }
    return least;
}

void kr_local_hot(struct kr_task *t, u64 nr) {
    u64 ret = kr_regs(t)->rip;
    struct kr_local_hot *h = hot(t, ret);
    u32 weight = 1;
    if (!t->vcpu || t->regs_replaced || t->is_vfork || kr_site_is_patched(&t->mm->vm, ret))
        return;
    volatile struct kr_patched *p = kr_patched_page(&t->mm->vm, t->vcpu->idx);
    if (!p->sample) {
        weight = t->local.sample / WEIGHT;
        if (h->ret == ret && h->count == NEVER)
            t->local.sample = KR_MIN(t->local.sample * 2, SAMPLE_MAX);
        p->sample = t->local.sample;
    }
    if (h->ret != ret) {
        if (h->count != NEVER && h->count > weight) {
            h->count -= weight;
            return;
        }
        h->ret = ret;
        h->count = 0;
    }
    if (h->count == NEVER)
        return;
    h->count += weight;
    if (h->count >= (t->proc->flags & KR_BOOTF_RANDOM ? ENOUGH_RANDOM : ENOUGH)) {
        h->count = NEVER; /* unless it is patched: then it counts from the start, once the patch is undone */
        t->local.site = ret;
        t->local.site_nr = (u32)nr;
    }
}

static int alone(const struct kr_task *t) {
    if (t->mm->relatives)
        return 0;
    for (const struct kr_task *o = t->mm->tasks; o; o = o->next)
        if (o->proc != t->proc)
            return 0;
    return 1;
}

/* The site may be counted from the start. */
static void again(struct kr_task *t, u64 ret) {
    struct kr_local_hot *h = hot(t, ret);
    if (h->ret == ret)
        h->count = 0;
}

void kr_local_patch(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    u64 ret = t->local.site;
    t->local.site = 0;
    if (kr_vm_entry(&mm->vm) != KR_ENTRY_RING3 || kr_trace_on)
        return;
    kr_lock(&mm->lock);
    if (mm->relatives)
        kr_bury(t, 0); /* those that have ended */
    int free = alone(t), possible = free && kr_site_possible(mm, ret, t->local.site_nr);
    kr_unlock(&mm->lock);
    if (!free)
        again(t, ret); /* until the other process has ended, as a child of vfork(2) does soon */
    if (!possible || kr_quiesce(t, PATIENCE) < 0)
        return;
    kr_lock(&mm->lock);
    int r = alone(t) ? kr_site_patch(mm, ret, t->local.site_nr) : -EINVAL;
    kr_unlock(&mm->lock);
    kr_quiesce_end(t);
    if (r)
        return;
    __atomic_fetch_add(&t->proc->calls.sites, 1, __ATOMIC_RELAXED);
    again(t, ret); /* once the patch is undone */
}

void kr_local_returns(struct kr_task *t) {
    struct kvm_regs *r = kr_regs(t);
    volatile const struct kr_patched *p = kr_patched_page(&t->mm->vm, t->vcpu->idx);
    if (r->rcx == kr_engine_left_by()) {
        r->rcx = p->ret;
        r->r11 = p->flags;
    }
    r->rcx = kr_site_return(&t->mm->vm, r->rcx);
}
