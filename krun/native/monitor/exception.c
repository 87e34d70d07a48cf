/* SPDX-License-Identifier: Apache-2.0
 *
 * The signal that the payload gets for an exception of the processor (arch/x86/kernel/traps.c). No state. Locks: that of
 * kr_mm_fault. Caller: the run loop.
 */
#include "exception.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../machine/x86.h"
#include "../process/process.h"
#include "../process/signal.h"
#include <asm/siginfo.h>
#include <asm/signal.h>

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

void kr_exception(struct kr_task *t, u32 vec, u64 error) {
    struct kvm_regs *r = kr_regs(t);
    switch (vec) {
    case VEC_DE:
        kr_signal_force(t, SIGFPE, FPE_INTDIV, r->rip, vec, 0);
        return;
    case VEC_DB:
        kr_signal_force(t, SIGTRAP, TRAP_TRACE, r->rip, vec, 0);
        return;
    case VEC_BP:
        kr_signal_force(t, SIGTRAP, SI_KERNEL, 0, vec, 0);
        return;
    case VEC_UD: {
        /* INT n through a gate with a DPL below 3 is #GP (SDM Vol. 3A, "Protection of Exception- and
         * Interrupt-Handler Procedures"). PVM raises #UD instead. */
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
