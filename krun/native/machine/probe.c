/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the page that the host refuses. Before Linux 6.8 KVM answers a failed host access with -EFAULT and
 * without an address.
 *
 * The probe gives the vCPU an empty root table of its own. Each page that the instruction needs then raises a
 * guest #PF, which has the address. The monitor touches that page on the host: either the host refuses it, or
 * the page is entered into the probe's tables and the guest runs on.
 *
 * Takes mm->lock. The case is rare (a file is truncated under a mapping), so the probe may be slow. The root
 * table comes from the pool once for each VM (vm->probe_gpa) and is used again.
 */
#include "mm.h"
#include "root.h"
#include "usercopy.h"
#include "x86.h"

#define TRIES 64

u64 kr_probe_fault(struct kr_task *t) {
    struct kr_vm *vm = &t->mm->vm;
    u64 culprit = 0, entered[TRIES];
    u32 n = 0;
    kr_lock(&t->mm->lock);
    u64 real = vm->root_gpa, root = vm->probe_gpa ? vm->probe_gpa : kr_pt_table(vm);
    if (!root)
        goto out;
    vm->probe_gpa = root;
    u64 *from = (u64 *)(vm->pt + (real - KR_PT_GPA)), *to = (u64 *)(vm->pt + (root - KR_PT_GPA));
    to[KR_SYS_BASE >> 39 & 511] = from[KR_SYS_BASE >> 39 & 511]; /* shared with the real root */
    /* kr_pt_update works on the probe's tables. Other vCPUs keep their CR3; if they fault, they wait for the lock. */
    vm->root_gpa = root;
    t->run->s.regs.sregs.cr3 = root;
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS | KVM_SYNC_X86_REGS;
    t->run->request_interrupt_window = 0; /* every fault must reach its stub */
    while (n < TRIES) {
        struct kvm_regs before = *kr_regs(t);
        long r = kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        struct kvm_regs *now = kr_regs(t);
        u64 rip = now->rip, pf = KR_SYS_BASE + KR_SYS_EXC + VEC_PF * 16;
        if (r == -EFAULT || rip < pf || rip > pf + 2)
            break; /* the guest went on, or stopped for another reason: the run loop serves that with the real root */
        u64 f[6];
        memcpy(f, t->vcpu->ist + KR_PAGE - sizeof f, sizeof f);
        u64 addr = t->run->s.regs.sregs.cr2;
        before.rip = f[1];
        before.rsp = f[4];
        before.rflags = (f[3] & KR_FLAGS_USER) | KR_FLAGS_FIXED;
        struct kr_vma *v = kr_vma_find(t->mm, addr);
        before.rax = now->rax; /* a REP instruction makes progress between faults */
        before.rcx = now->rcx;
        before.rsi = now->rsi;
        before.rdi = now->rdi;
        *now = before;
        kr_x86_user_segments(&t->run->s.regs.sregs);
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS | KVM_SYNC_X86_REGS;
        if (!v || v->start > addr || !v->prot)
            break; /* a true fault of the payload */
        u8 b;
        u32 seen;
        long bad = kr_copy_raw(&b, (const void *)addr, 1);
        if (!bad && (f[0] & 2))
            bad = kr_cas32_raw((u32 *)(addr & ~3ULL), 0, 0, &seen);
        if (bad < 0) {
            culprit = addr;
            break;
        }
        u64 page = KR_PAGE_DOWN(addr);
        if (kr_vm_cover(vm, page, page + KR_PAGE) < 0 ||
            kr_pt_update(vm, page, page + KR_PAGE, v->prot, 1) < 0)
            break;
        entered[n++] = page;
    }
    /* The next probe uses the same tables, so they become empty again. */
    for (u32 i = 0; i < n; i++)
        kr_pt_update(vm, entered[i], entered[i] + KR_PAGE, 0, 0);
    if (n)
        kr_vm_flush(vm);
    vm->root_gpa = real;
    t->run->s.regs.sregs.cr3 = kr_root(vm, t->vcpu->idx);
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
out:
    kr_unlock(&t->mm->lock);
    return culprit;
}
