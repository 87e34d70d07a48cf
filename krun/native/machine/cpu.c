/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving and loading a thread's processor state: see cpu.h. No state of its own. Uses t->run, t->vcpu and
 * t->xsave, which belong to the thread.
 */
#include "cpu.h"
#include "mm.h"
#include "x86.h"

int kr_cpu_get_xsave(struct kr_task *t, u8 *xsave) {
    if (t->vcpu)
        return kr_vcpu_get_xsave(&t->mm->vm, t->vcpu, xsave);
    if (!t->xsave)
        return -ENOMEM;
    if (xsave != t->xsave)
        memcpy(xsave, t->xsave, sizeof(struct kvm_xsave));
    return 0;
}

int kr_cpu_set_xsave(struct kr_task *t, const u8 *xsave) {
    if (t->vcpu)
        return kr_vcpu_set_xsave(&t->mm->vm, t->vcpu, xsave);
    if (!t->xsave)
        return -ENOMEM;
    if (xsave != t->xsave)
        memcpy(t->xsave, xsave, sizeof(struct kvm_xsave));
    return 0;
}

int kr_cpu_save(struct kr_task *t, struct kr_cpu *c) {
    c->regs = t->run->s.regs.regs;
    c->fs = t->run->s.regs.sregs.fs;
    c->gs = t->run->s.regs.sregs.gs;
    return kr_cpu_get_xsave(t, c->xsave);
}

int kr_cpu_load(struct kr_task *t, const struct kr_cpu *c) {
    t->run->s.regs.regs = c->regs;
    t->run->s.regs.sregs.fs = c->fs;
    t->run->s.regs.sregs.gs = c->gs;
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS;
    return kr_cpu_set_xsave(t, c->xsave);
}

void kr_cpu_drop_fault(struct kr_task *t) {
    struct kvm_run *run = t->run;
    struct kvm_vcpu_events *e = &run->s.regs.events;
    run->kvm_valid_regs |= KVM_SYNC_X86_EVENTS;
    run->immediate_exit = 1;
    long r = kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0); /* only tells the events */
    run->immediate_exit = 0;
    run->kvm_valid_regs &= ~(u64)KVM_SYNC_X86_EVENTS;
    if (r != -EINTR || !e->exception.injected || e->exception.nr == VEC_DB || e->exception.nr == VEC_BP)
        return;
    memset(e, 0, sizeof *e);
    run->kvm_dirty_regs |= KVM_SYNC_X86_EVENTS;
}
