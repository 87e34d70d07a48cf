/* SPDX-License-Identifier: Apache-2.0
 *
 * The run loop of a thread: enter the guest, find out why it came back, act.
 *
 * What an exit means is decided by RIP alone, never by the exit reason: in this vCPU's LSTAR stub it is a
 * system call, in the exception stubs an exception, anywhere else an OUT is a forgery (#GP). This holds also
 * when a signal stops the guest between SYSCALL and the stub's OUT.
 */
#include "../view/ask.h"
#include "../machine/mm.h"
#include "../process/process.h"
#include "../process/quiesce.h"
#include "../machine/share.h"
#include "../process/signal.h"
#include "../process/trace.h"
#include "../machine/usercopy.h"
#include "../machine/vdso.h"
#include "../machine/warm.h"
#include "../machine/x86.h"
#include "../lib/kr_linux.h"
#include "../sys/table.h"
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/time_types.h>
#include <linux/sched.h>
#include <linux/sched/types.h>

#define EXC_BASE (KR_SYS_BASE + KR_SYS_EXC)
#define EXC_END (EXC_BASE + KR_VECTORS * 16)

struct frame {
    u64 error, rip, cs, rflags, rsp, ss;
};

static void to_user_mode(struct kr_task *t) {
    struct kvm_sregs *s = &t->run->s.regs.sregs;
    /* Without this the payload would go on in ring 0 on real hardware (portability rule 1). */
    if (s->cs.selector != KR_USER_CS || s->cs.dpl != 3 || s->ss.dpl != 3 || s->ss.selector != KR_USER_SS ||
        !s->cs.l) {
        kr_x86_user_segments(s);
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_SREGS;
    }
}

/* Calls during which a thread can do without its vCPU: those that may block, but for the clone family, which
 * copies its state. */
static int may_park(u64 nr) {
    const struct kr_sys_row *row = kr_sys_row(nr);
    return row && (row->attr & KR_CALL_BLOCK) && nr != __NR_vfork && nr != __NR_clone && nr != __NR_clone3;
}

static void system_call(struct kr_task *t) {
    struct kvm_regs *r = kr_regs(t);
    t->nr = r->rax;
    t->args[0] = r->rdi;
    t->args[1] = r->rsi;
    t->args[2] = r->rdx;
    t->args[3] = r->r10;
    t->args[4] = r->r8;
    t->args[5] = r->r9;
    r->rip = r->rcx;
    r->rflags = (r->r11 & KR_FLAGS_USER) | KR_FLAGS_FIXED;
    t->regs_replaced = 0;
    to_user_mode(t);
    if (kr_share_scarce(t) && may_park(t->nr))
        kr_share_release(t);
    long ret = kr_syscall(t);
    if (ret != -KR_ERESTART)
        t->resumed = 0;
    r = kr_regs(t); /* fork gives a new vCPU; one that was given back is taken again at the run loop */
    if (!t->regs_replaced) {
        if (ret == -KR_ERESTART) {
            r->rax = t->nr;
            r->rip -= 2; /* SYSCALL is two bytes */
        } else {
            r->rax = (u64)ret;
        }
    }
    t->nr = ~0ULL;
}

/* x87 and SSE exceptions: si_code from the status and control words (math_error() in
 * arch/x86/kernel/traps.c). */
static int fpe_code(struct kr_task *t, int simd) {
    u8 *x = kr_task_xsave(t);
    if (!x || kr_vcpu_get_xsave(&t->mm->vm, t->vcpu, x) < 0)
        return FPE_FLTINV;
    u32 err;
    if (simd) {
        u32 mxcsr;
        memcpy(&mxcsr, x + 24, 4);
        err = ~(mxcsr >> 7) & mxcsr;
    } else {
        u16 cwd, swd;
        memcpy(&cwd, x, 2);
        memcpy(&swd, x + 2, 2);
        err = swd & ~cwd;
    }
    return err & 1      ? FPE_FLTINV
           : err & 4    ? FPE_FLTDIV
           : err & 8    ? FPE_FLTOVF
           : err & 0x12 ? FPE_FLTUND
           : err & 0x20 ? FPE_FLTRES
                        : 0;
}

static void page_fault(struct kr_task *t, u64 addr, u64 error) {
    int code = kr_mm_fault(t->mm, addr, error);
    if (code == 0)
        return;
    error |= 4; /* user */
    t->cr2 = addr;
    if (code == KR_FAULT_BUS)
        kr_signal_force(t, SIGBUS, BUS_ADRERR, addr, VEC_PF, error);
    else
        kr_signal_force(t, SIGSEGV, code, addr, VEC_PF, error);
}

static void exception(struct kr_task *t, u32 vec, u64 error) {
    struct kvm_regs *r = kr_regs(t);
    switch (vec) {
    case VEC_DE:
        kr_signal_force(t, SIGFPE, FPE_INTDIV, r->rip, vec, 0);
        return;
    case VEC_DB: {
        u64 dr6 = t->run->debug.arch.dr6;
        (void)dr6;
        kr_signal_force(t, SIGTRAP, TRAP_TRACE, r->rip, vec, 0);
        return;
    }
    case VEC_BP:
        kr_signal_force(t, SIGTRAP, SI_KERNEL, 0, vec, 0);
        return;
    case VEC_UD: {
        /* INT n through a gate that ring 3 may not use is #GP; PVM makes it #UD (portability rule 6). */
        u8 insn[2];
        if (kr_copy_in(insn, r->rip, 2) == 0 && insn[0] == 0xcd) {
            kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, insn[1] * 8u + 2);
            return;
        }
        kr_signal_force(t, SIGILL, ILL_ILLOPN, r->rip, vec, 0);
        return;
    }
    case VEC_PF:
        page_fault(t, t->run->s.regs.sregs.cr2, error);
        return;
    case VEC_MF:
    case VEC_XM:
        kr_signal_force(t, SIGFPE, fpe_code(t, vec == VEC_XM), r->rip, vec, 0);
        return;
    case VEC_AC:
        kr_signal_force(t, SIGBUS, BUS_ADRALN, 0, vec, error);
        return;
    case VEC_SS:
        kr_signal_force(t, SIGBUS, SI_KERNEL, 0, vec, error);
        return;
    default: /* #GP, #OF, #BR, #NP, #TS and what a payload cannot cause */
        kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, vec, error);
        return;
    }
}

/* An exception stub was reached: the frame lies on this vCPU's exception stack. */
static void from_exception(struct kr_task *t, u32 vec) {
    struct kvm_regs *r = kr_regs(t);
    const u8 *top = (vec == VEC_DF ? t->vcpu->df : t->vcpu->ist) + KR_PAGE;
    struct frame f;
    memcpy(&f, top - sizeof f, sizeof f);
    u64 error = KR_VECTORS_WITH_ERROR >> vec & 1 ? f.error : 0;
    if (f.rip >= KR_SYS_BASE && f.rip == t->vcpu->stub && vec == VEC_GP &&
        kr_vm_entry(&t->mm->vm) != KR_ENTRY_RING3) {
        /* SYSCALL left us in ring 3 and the stub's OUT was refused: this back end is PVM. rcx, r11 and the
         * rest are the call's. */
        kr_lock(&t->mm->lock);
        kr_vm_open_port(&t->mm->vm);
        kr_warm_fork(t->mm, f.rsp); /* what was mapped before the back end was known */
        kr_unlock(&t->mm->lock);
        r->rsp = f.rsp;
        system_call(t);
        return;
    }
    r->rip = f.rip;
    r->rsp = f.rsp;
    r->rflags = (f.rflags & KR_FLAGS_USER) | KR_FLAGS_FIXED;
    to_user_mode(t);
    if (f.rip >= KR_WINDOW_END) {
        /* The payload jumped into pages of ours, or faulted there: it sees what a jump to an unmapped address
         * gives. */
        if (vec == VEC_PF || vec == VEC_GP) {
            t->cr2 = f.rip;
            kr_signal_force(t, SIGSEGV, vec == VEC_PF ? SEGV_MAPERR : SI_KERNEL, vec == VEC_PF ? f.rip : 0,
                            vec, error);
            return;
        }
    }
    exception(t, vec, error);
}

/* Ring 3 executed an I/O instruction itself on the one port that is open (PVM): #GP, as everywhere else. KVM
 * has the access pending and would complete an IN into the registers of the signal frame: it does so now, and
 * the registers are put back. */
static void forged(struct kr_task *t) {
    struct kvm_regs was = *kr_regs(t);
    u8 b[3] = {0, 0, 0};
    t->run->immediate_exit = 1;
    kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
    t->run->immediate_exit = 0;
    *kr_regs(t) = was;
    to_user_mode(t);
    /* RIP stands behind an OUT to port 0x7e, and at or behind an IN, depending on the back end. */
    kr_copy_in(b, was.rip - 2, 3);
    if (b[2] == 0xe4 || b[2] == 0xe5 || b[2] == 0xec || b[2] == 0xed || (b[2] >= 0x6c && b[2] <= 0x6f))
        ; /* at it */
    else if (b[0] >= 0xe4 && b[0] <= 0xe7 && b[1] == KR_PORT)
        kr_regs(t)->rip = was.rip - 2;
    else if ((b[1] >= 0xec && b[1] <= 0xef) || (b[1] >= 0x6c && b[1] <= 0x6f))
        kr_regs(t)->rip = was.rip - 1;
    kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, 0);
}

static void decode(struct kr_task *t, int is_out);

/* KVM could not get at a page that the tables allow: the host refuses it (file truncated under a mapping, a
 * race with munmap). KVM names the page since Linux 6.8; before, it is found by running on from an empty page
 * table (probe.c). */
static void host_fault(struct kr_task *t) {
    u64 addr;
    if (t->run->exit_reason == KVM_EXIT_MEMORY_FAULT) {
        struct {
            u64 flags, gpa, size;
        } mf;
        memcpy(&mf, &t->run->hw, sizeof mf);
        u64 n = (mf.gpa - KR_CHUNK_GPA) >> KR_CHUNK_SHIFT;
        if (mf.gpa < KR_CHUNK_GPA || n >= t->mm->vm.next_chunk)
            kr_die("host fault at guest-physical 0x%lx outside every chunk", (unsigned long)mf.gpa);
        addr = ((u64)t->mm->vm.chunk_list[n] << KR_CHUNK_SHIFT) + (mf.gpa & (KR_CHUNK_SIZE - 1));
    } else {
        addr = kr_probe_fault(t);
    }
    if (!addr) { /* nothing wrong any more; the probe may have run on to one of our doors */
        if (kr_regs(t)->rip >= KR_WINDOW_END)
            decode(t, 0);
        return;
    }
    /* Is it wrong now? Under the lock no mapping changes. */
    kr_lock(&t->mm->lock);
    struct kr_vma *v = kr_vma_find(t->mm, addr);
    int mapped = v && v->start <= addr;
    u32 prot = mapped ? v->prot : 0;
    long sig = mapped && prot ? kr_touch_raw((u32 *)(addr & ~3ULL), prot & 2) : 0;
    kr_unlock(&t->mm->lock);
    if (sig) { /* behind the end of a file, or in a region of MADV_GUARD_INSTALL */
        t->cr2 = addr;
        kr_signal_force(t, (int)sig, sig == SIGBUS ? BUS_ADRERR : SEGV_MAPERR, addr, VEC_PF, 4);
    }
}

static void decode(struct kr_task *t, int is_out) {
    struct kvm_regs *r = kr_regs(t);
    u64 rip = r->rip;
    if (rip < KR_WINDOW_END) {
        if (is_out)
            forged(t);
        return;
    }
    if (rip >= t->vcpu->stub && rip <= t->vcpu->stub + 2) {
        if (is_out)
            kr_window_call(&t->window);
        if (kr_vm_entry(&t->mm->vm) == KR_ENTRY_UNKNOWN && (t->run->s.regs.sregs.cs.dpl == 0))
            kr_vm_entry_set(&t->mm->vm, KR_ENTRY_RING0);
        system_call(t);
    } else if (rip >= EXC_BASE && rip < EXC_END) {
        from_exception(t, (u32)((rip - EXC_BASE) >> 4));
    } else { /* beyond the window but not at our doors: as a jump to an unmapped address */
        to_user_mode(t);
        kr_signal_force(t, SIGSEGV, SI_KERNEL, 0, VEC_GP, 0);
    }
}

/* KVM_RUN is EAGAIN while KVM cannot start its worker thread, which it does in the first run of a VM. There
 * are two reasons.
 * SCHED_DEADLINE: such a thread may not fork (sched(7)) unless its children start afresh, so the flag that
 * says so is set for this one run; the kernel lets nobody change it who could not have asked for the policy.
 * No room for a thread (pids.max, RLIMIT_NPROC): wait for it, as the payload's fork that led here has
 * succeeded already. */
static void without_worker(struct kr_task *t, u32 tries) {
    struct sched_attr a;
    if (kr_sys4(__NR_sched_getattr, 0, (u64)&a, sizeof a, 0) >= 0 && a.sched_policy == SCHED_DEADLINE &&
        !(a.sched_flags & SCHED_FLAG_RESET_ON_FORK)) {
        a.size = sizeof a;
        a.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
        long r = kr_sys3(__NR_sched_setattr, 0, (u64)&a, 0);
        if (r < 0)
            kr_die("KVM's worker thread: SCHED_DEADLINE forbids it, and sched_setattr gives errno %ld; set "
                   "SCHED_FLAG_RESET_ON_FORK or keep CAP_SYS_NICE",
                   -r);
        t->run->immediate_exit = 1;
        kr_sys3(__NR_ioctl, t->vcpu->fd, KVM_RUN, 0);
        t->run->immediate_exit = 0;
        a.sched_flags &= ~(u64)SCHED_FLAG_RESET_ON_FORK;
        kr_sys3(__NR_sched_setattr, 0, (u64)&a, 0);
        return;
    }
    if (tries == 1)
        kr_log("KVM's worker thread: no room for it (pids limit of the cgroup, or RLIMIT_NPROC); waiting");
    struct __kernel_timespec pause = {0, (tries < 20 ? tries : 20) * 1000000L};
    kr_call_intr(__NR_nanosleep, (u64)&pause, 0, 0, 0, 0, 0);
}

static u32 internal_errors;

void kr_run(struct kr_task *t) {
    u32 unstarted = 0;
    t->runs = 1;
    if (t->ask_early)
        __atomic_or_fetch(&t->asked, KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    for (;;) {
        if (!t->vcpu || kr_share_wanted(t)) { /* somebody is without a vCPU: take turns */
            kr_share_release(t);
            kr_share_acquire(t);
        }
        if (t->asked & KR_ASKED_STAND)
            kr_quiesce_stand(t);
        if (t->asked & KR_ASKED_QUESTION)
            kr_ask_serve(t);
        if (t->sig_caught || t->held)
            kr_signal_deliver(t);
        t->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
        t->run->exit_reason = 0;
        t->run->request_interrupt_window =
            kr_vm_entry(&t->mm->vm) == KR_ENTRY_RING3 && kr_window_ask(&t->window);
        long r = kr_call_intr(__NR_ioctl, (u64)t->vcpu->fd, KVM_RUN, 0, 0, 0, 0);
        if (r == -EAGAIN) {
            without_worker(t, ++unstarted);
            continue;
        }
        unstarted = 0;
        if (r == -EINTR || r == -KR_ERESTART) {
            if (kr_regs(t)->rip >= KR_WINDOW_END && r != -KR_ERESTART)
                decode(t, 0);
            continue;
        }
        if (r == -EFAULT) {
            if (kr_regs(t)->rip >= KR_WINDOW_END)
                decode(t, 0);
            else
                host_fault(t);
            continue;
        }
        if (r < 0)
            kr_die("KVM_RUN: errno %ld", -r);
        kr_vdso_tick(t->mm);
        switch (t->run->exit_reason) {
        case KVM_EXIT_IO:
            decode(t, 1);
            break;
        case KVM_EXIT_IRQ_WINDOW_OPEN:
            if (kr_regs(t)->rip == t->vcpu->stub)
                kr_window_won(&t->window);
            else
                kr_window_lost(&t->window);
            __attribute__((fallthrough));
        case KVM_EXIT_INTR:
            if (kr_regs(t)->rip >= KR_WINDOW_END)
                decode(t, 0);
            break;
        case KVM_EXIT_INTERNAL_ERROR: /* an instruction that KVM emulates and cannot: as if it did not exist
                                       */
            internal_errors++;
            if (kr_regs(t)->rip >= KR_WINDOW_END)
                kr_die("KVM internal error %u in the monitor's stub", t->run->internal.suberror);
            kr_log("KVM internal error %u at rip 0x%lx", t->run->internal.suberror,
                   (unsigned long)kr_regs(t)->rip);
            kr_signal_force(t, SIGILL, ILL_ILLOPN, kr_regs(t)->rip, VEC_UD, 0);
            break;
        case KVM_EXIT_MEMORY_FAULT:
            host_fault(t);
            break;
        case KVM_EXIT_SHUTDOWN:
            kr_die("triple fault in the guest (last rip 0x%lx)", (unsigned long)kr_regs(t)->rip);
        default:
            kr_die("KVM exit %u (rip 0x%lx, hardware reason 0x%lx)", t->run->exit_reason,
                   (unsigned long)kr_regs(t)->rip,
                   (unsigned long)t->run->fail_entry.hardware_entry_failure_reason);
        }
    }
}
