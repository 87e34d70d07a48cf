/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the page that the host refuses. Before Linux 6.8, and on PVM, KVM answers a failed host access with
 * -EFAULT and without an address.
 *
 * The probe gives the vCPU an empty root table of its own. Each page that the instruction needs then raises a
 * guest #PF, which has the address. The monitor touches that page on the host: either the host refuses it, or
 * the page is entered into the probe's tables and the guest runs on.
 *
 * Another thread may have given the page back meanwhile: then the host refuses nothing, and the guest goes on from
 * instruction to instruction, for as long as it stays on the pages that were entered. So
 *   - the registers of a #PF are those of the exit, as for every exception
 *   - mm->lock is not held while the guest runs, and a signal interrupts it (kr_call_intr), as in the run loop
 *   - each probe under way has a root of its own. What other threads change meanwhile is not in its tables; there the host's
 *     own mapping decides, which has no more rights than the array
 *
 * State: vm->probe_gpa, the roots that no probe uses, under mm->lock. They come from the pool and are used again. The case is
 * rare (a file is truncated under a mapping), so the probe may be slow.
 */
#include "cpu.h"
#include "mm.h"
#include "root.h"
#include "usercopy.h"
#include "x86.h"
#include <linux/mman.h>
#include <asm/siginfo.h>
#include <asm/signal.h>

#define TRIES 64
#define NEXT 511 /* the entry of a free root that has the next one; it is never present */

_Static_assert((KR_SYS_BASE >> 39 & 511) < NEXT, "an entry of the root that nothing else uses");

static u64 *table(const struct kr_vm *vm, u64 gpa) { return (u64 *)(vm->pt + (gpa - KR_PT_GPA)); }

/* A root without pages of the window; 0: no memory. Locked. */
static u64 take_root(struct kr_vm *vm) {
    u64 root = vm->probe_gpa;
    if (root) {
        vm->probe_gpa = table(vm, root)[NEXT];
        table(vm, root)[NEXT] = 0;
    } else {
        root = kr_pt_table(vm);
    }
    if (root) /* shared with the real root */
        table(vm, root)[KR_SYS_BASE >> 39 & 511] = table(vm, vm->root_gpa)[KR_SYS_BASE >> 39 & 511];
    return root;
}

static void give_root(struct kr_vm *vm, u64 root) {
    table(vm, root)[NEXT] = vm->probe_gpa;
    vm->probe_gpa = root;
}

/* Writes the entry of a page in the probe's tables; prot 0 clears it. Locked. */
static int put(struct kr_vm *vm, u64 root, u64 page, u32 prot) {
    u64 real = vm->root_gpa;
    vm->root_gpa = root; /* kr_pt_update works on it */
    int r = kr_pt_update(vm, page, page + KR_PAGE, prot, prot != 0);
    vm->root_gpa = real;
    return r;
}

/* What the processor has pushed for a #PF, and the address. */
struct fault {
    u64 error, rip, cs, rflags, rsp, ss, addr;
};

/* Whether the guest stands at the stub of #PF. */
static int is_fault(struct kr_task *t, struct fault *f) {
    u64 rip = kr_regs(t)->rip, stub = KR_SYS_BASE + KR_SYS_EXC + VEC_PF * 16;
    if (rip < stub || rip > stub + 2)
        return 0;
    memcpy(f, t->vcpu->ist + KR_PAGE - offsetof(struct fault, addr), offsetof(struct fault, addr));
    f->addr = t->run->s.regs.sregs.cr2;
    return 1;
}

/* Enters the page of a #PF into the probe's tables. 1: the guest can go on. 0: the fault is the payload's, and the run loop serves
 * it. -EFAULT: the host refuses the page. -ENOMEM. Locked. */
static int enter_page(struct kr_mm *mm, u64 root, const struct fault *f) {
    const struct kr_vma *v = f->addr < KR_WINDOW_END ? kr_vma_find(mm, f->addr) : NULL;
    u32 need = f->error & 2 ? PROT_WRITE : f->error & 16 ? PROT_EXEC : 0;
    if (f->rip >= KR_WINDOW_END || !v || v->start > f->addr || !v->prot || (v->prot & need) != need)
        return 0;
    if (kr_touch_raw((u32 *)(f->addr & ~3ULL), need & PROT_WRITE))
        return -EFAULT;
    u64 page = KR_PAGE_DOWN(f->addr);
    if (kr_vm_cover(&mm->vm, page, page + KR_PAGE) < 0 || put(&mm->vm, root, page, v->prot) < 0)
        return -ENOMEM;
    return 1;
}

/* Leaves the stub: the guest goes on where the #PF was. */
static void go_back(struct kr_task *t, const struct fault *f) {
    struct kvm_regs *r = kr_regs(t);
    r->rip = f->rip;
    r->rsp = f->rsp;
    r->rflags = (f->rflags & KR_FLAGS_USER) | KR_FLAGS_FIXED;
    kr_x86_user_segments(&t->run->s.regs.sregs);
}

u64 kr_probe_fault(struct kr_task *t) {
    struct kr_mm *mm = t->mm;
    struct kr_vm *vm = &mm->vm;
    u64 culprit = 0, entered[TRIES];
    u32 n = 0;
    kr_lock(&mm->lock);
    u64 root = take_root(vm);
    kr_unlock(&mm->lock);
    if (!root)
        return KR_PROBE_BLIND;
    t->run->s.regs.sregs.cr3 = root;
    t->run->request_interrupt_window = 0; /* every fault must reach its stub */
    while (n < TRIES) {
        struct fault f;
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS | KVM_SYNC_X86_REGS;
        long r = kr_call_intr(__NR_ioctl, (u64)t->vcpu->fd, KVM_RUN, 0, 0, 0, 0);
        if (r == -EINTR)
            kr_cpu_drop_fault(t);
        if (r < 0 || !is_fault(t, &f))
            break; /* the guest went on, or stopped for another reason: the run loop serves that with the real root */
        kr_lock(&mm->lock);
        int in = enter_page(mm, root, &f);
        kr_unlock(&mm->lock);
        if (in == 0)
            break;
        go_back(t, &f);
        if (in < 0) {
            culprit = in == -EFAULT ? f.addr : KR_PROBE_BLIND;
            break;
        }
        entered[n++] = KR_PAGE_DOWN(f.addr);
    }
    kr_lock(&mm->lock);
    for (u32 i = 0; i < n; i++)
        put(vm, root, entered[i], 0);
    if (n)
        kr_vm_flush(vm);
    give_root(vm, root);
    t->run->s.regs.sregs.cr3 = kr_root(vm, t->vcpu->idx);
    t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
    kr_unlock(&mm->lock);
    return culprit;
}

int kr_mm_refused(struct kr_mm *mm, u64 addr, int *code) {
    kr_lock(&mm->lock);
    struct kr_vma *v = kr_vma_find(mm, addr);
    int mapped = v && v->start <= addr;
    u32 prot = mapped ? v->prot : 0;
    int sig = prot ? (int)kr_touch_raw((u32 *)(addr & ~3ULL), prot & PROT_WRITE) : 0;
    *code = sig == SIGBUS ? BUS_ADRERR : SEGV_MAPERR;
    u64 entry = kr_pt_get(&mm->vm, addr);
    if (!sig && (entry & KR_PTE_P) && (!prot || ((entry & KR_PTE_W) && !(prot & PROT_WRITE)))) {
        sig =
            SIGSEGV; /* kr_pt_update had no memory to take the right away: a page of a block that one entry maps */
        *code = mapped ? SEGV_ACCERR : SEGV_MAPERR;
    }
    kr_unlock(&mm->lock);
    return sig;
}
