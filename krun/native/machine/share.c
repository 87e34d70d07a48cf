/* SPDX-License-Identifier: Apache-2.0
 *
 * More threads than vCPUs: see share.h. State: vm.scarce, vm.waiters, vm.released (a futex word), all atomic; vm.slice,
 * under mm->lock; task->parked, which belongs to the thread.
 */
#include "share.h"
#include "cpu.h"
#include "above.h"
#include <linux/futex.h>

int kr_share_prepare(struct kr_task *t) {
    if (!t->parked)
        t->parked = kr_alloc(sizeof *t->parked);
    if (!t->parked || !kr_task_xsave(t))
        return -ENOMEM;
    t->vcpu = NULL;
    t->run = t->parked;
    return 0;
}

void kr_share_release(struct kr_task *t) {
    struct kr_vcpu *v = t->vcpu;
    struct kr_cpu cpu;
    if (!v)
        return;
    if (kr_cpu_save(t, &cpu) < 0 || kr_share_prepare(t) < 0)
        return;
    kr_cpu_load(t, &cpu);
    kr_lock(&t->mm->lock);
    kr_vcpu_put(&t->mm->vm, v);
    kr_unlock(&t->mm->lock);
}

int kr_share_wanted(const struct kr_task *t) {
    return __atomic_load_n(&t->mm->vm.waiters, __ATOMIC_RELAXED) != 0;
}

int kr_share_scarce(const struct kr_task *t) {
    return __atomic_load_n(&t->mm->vm.scarce, __ATOMIC_RELAXED) != 0;
}

#define SLICE_NS 10000000L /* a thread computes for this time at least while others wait */

/* Takes the threads that compute out of the guest, so that their run loops see that a vCPU is wanted. KVM is asked for one
 * more vCPU, too, because it may have refused the last one only for want of a descriptor. All waiters together do this once
 * in a slice. Lock: mm->lock. */
static void end_slice(struct kr_task *t) {
    struct kr_vm *vm = &t->mm->vm;
    u64 now = kr_now();
    if (now - vm->slice < SLICE_NS)
        return;
    vm->slice = now;
    if (t->mm->relatives)
        kr_bury(t, 1);
    __atomic_store_n(&vm->scarce, vm->next_vcpu >= vm->max_vcpus, __ATOMIC_RELAXED);
    for (struct kr_task *o = t->mm->tasks; o; o = o->next)
        if (o != t && o->proc == t->proc && o->vcpu && o->nr == ~0UL)
            kr_quiesce_kick(o);
}

void kr_share_acquire(struct kr_task *t) {
    struct kr_vm *vm = &t->mm->vm;
    struct kr_vcpu *v;
    struct kr_cpu cpu;
    kr_lock(&t->mm->lock);
    for (;;) {
        if (t->asked & KR_ASKED_STAND)
            kr_quiesce_stand_locked(t);
        v = kr_vcpu_get(vm, t);
        if (v)
            break;
        u32 seen = __atomic_load_n(&vm->released, __ATOMIC_SEQ_CST);
        t->waits_vcpu = 1;
        __atomic_add_fetch(&vm->waiters, 1, __ATOMIC_RELAXED);
        kr_unlock(&t->mm->lock);
        s64 slice[2] = {0, SLICE_NS};
        long r = kr_sys4(__NR_futex, &vm->released, FUTEX_WAIT_PRIVATE, seen, slice);
        kr_lock(&t->mm->lock);
        if (r == -ETIMEDOUT)
            end_slice(t);
        t->waits_vcpu = 0;
        __atomic_sub_fetch(&vm->waiters, 1, __ATOMIC_RELAXED);
    }
    kr_unlock(&t->mm->lock);
    kr_cpu_save(t, &cpu);
    t->vcpu = v;
    t->run = v->run;
    kr_cpu_load(t, &cpu);
}
