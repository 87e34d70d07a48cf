/* SPDX-License-Identifier: Apache-2.0
 * State: vm.scarce, vm.waiters, vm.released (a futex word), under mm->lock where written; task->parked. */
#include "share.h"
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
    struct kr_vm *vm = &t->mm->vm;
    if (!v)
        return;
    struct kvm_sync_regs regs = v->run->s.regs;
    if (!kr_task_xsave(t) || kr_vcpu_get_xsave(vm, v, t->xsave) < 0 || kr_share_prepare(t) < 0) {
        t->vcpu = v;
        t->run = v->run;
        return;
    }
    t->run->s.regs = regs;
    kr_lock(&t->mm->lock);
    kr_vcpu_put(vm, v);
    kr_unlock(&t->mm->lock);
}

void kr_share_acquire(struct kr_task *t) {
    struct kr_vm *vm = &t->mm->vm;
    struct kr_vcpu *v;
    kr_lock(&t->mm->lock);
    while (!(v = kr_vcpu_get(vm, t))) {
        u32 seen = vm->released;
        vm->waiters++;
        kr_unlock(&t->mm->lock);
        kr_sys4(__NR_futex, &vm->released, FUTEX_WAIT_PRIVATE, seen, 0);
        kr_lock(&t->mm->lock);
        vm->waiters--;
    }
    kr_unlock(&t->mm->lock);
    const struct kvm_sync_regs *s = &t->parked->s.regs;
    v->run->s.regs.regs = s->regs;
    v->run->s.regs.sregs.fs = s->sregs.fs;
    v->run->s.regs.sregs.gs = s->sregs.gs;
    v->run->kvm_dirty_regs = KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
    kr_vcpu_set_xsave(vm, v, t->xsave);
    t->vcpu = v;
    t->run = v->run;
}
