/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the signal frame and restoring the state from it. State: the task's registers and alternate stack.
 */
#include "sigframe.h"
#include "../machine/cpu.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../machine/x86.h"
#include <asm/signal.h>

#define REDZONE 128
#define FP_MAGIC1 0x46505853u
#define FP_MAGIC2 0x46505845u
#define SW_RESERVED 464 /* offset of struct _fpx_sw_bytes in the FXSAVE image */
#define UC_FP_XSTATE 1
#define UC_SIGCONTEXT_SS 2
#define UC_STRICT_RESTORE_SS 4
#define SS_ONSTACK_ 1
#define SS_DISABLE_ 2
#define SS_AUTODISARM_ (1u << 31)

struct fpx_sw {
    u32 magic1, extended_size;
    u64 xfeatures;
    u32 xstate_size, padding[7];
};

static int on_altstack(const struct kr_task *t, u64 sp) {
    if (t->altstack.flags & SS_AUTODISARM_)
        return 0;
    return t->altstack.size && sp > t->altstack.sp && sp - t->altstack.sp <= t->altstack.size;
}

int kr_altstack_flags(const struct kr_task *t, u64 sp) {
    if (!t->altstack.size)
        return SS_DISABLE_;
    return on_altstack(t, sp) ? SS_ONSTACK_ : 0;
}

u64 kr_sigframe_place(u64 sp, u32 xsize, u64 *fp) {
    sp -= xsize + 4; /* FP_XSTATE_MAGIC2 behind the image */
    sp &= ~63ULL;
    *fp = sp;
    sp -= sizeof(struct kr_sigframe);
    return (sp & ~15ULL) - 8;
}

/* The initial FPU state for the handler, as fpu__clear_user_states() sets it. */
static void init_fpu(u8 *x) {
    u16 fcw = 0x37f;
    u32 mxcsr = 0x1f80, mask = 0xffff;
    u64 features = 3; /* KVM loads MXCSR only with the SSE bit */
    memset(x, 0, 4096);
    memcpy(x, &fcw, 2);
    memcpy(x + 24, &mxcsr, 4);
    memcpy(x + 28, &mask, 4);
    memcpy(x + 512, &features, 8);
}

/* Writes the extended state of t to fp, in the form that the kernel gives it in a frame. 0 or -EFAULT. */
static long put_fpu(struct kr_task *t, u64 fp) {
    const struct kr_vm *vm = &t->mm->vm;
    struct fpx_sw sw = {FP_MAGIC1, vm->xsave_size + 4, vm->xcr0, vm->xsave_size, {0}};
    u32 magic2 = FP_MAGIC2;
    u8 *x = kr_task_xsave(t);
    if (!x || kr_cpu_get_xsave(t, x) < 0)
        return -EFAULT;
    memcpy(x + SW_RESERVED, &sw, sizeof sw);
    return kr_copy_out(fp, x, vm->xsave_size) < 0 || kr_copy_out(fp + vm->xsave_size, &magic2, 4) < 0
               ? -EFAULT
               : 0;
}

/* Writes t's registers to mc. */
static void put_registers(struct kr_sigcontext *mc, struct kr_task *t, kr_sigset saved, u64 fp) {
    const struct kvm_regs *r = kr_regs(t);
    *mc = (struct kr_sigcontext){.r8 = r->r8,
                                 .r9 = r->r9,
                                 .r10 = r->r10,
                                 .r11 = r->r11,
                                 .r12 = r->r12,
                                 .r13 = r->r13,
                                 .r14 = r->r14,
                                 .r15 = r->r15,
                                 .rdi = r->rdi,
                                 .rsi = r->rsi,
                                 .rbp = r->rbp,
                                 .rbx = r->rbx,
                                 .rdx = r->rdx,
                                 .rax = r->rax,
                                 .rcx = r->rcx,
                                 .rsp = r->rsp,
                                 .rip = r->rip,
                                 .rflags = r->rflags & ~0x10000ULL,
                                 .cs = KR_USER_CS,
                                 .ss = KR_USER_SS,
                                 .error = t->error,
                                 .trapno = t->trapno,
                                 .oldmask = saved,
                                 .cr2 = t->cr2,
                                 .fpstate = fp};
}

long kr_sigframe_push(struct kr_task *t, const siginfo_t *si, const struct kr_sigaction *act,
                      kr_sigset saved) {
    struct kvm_regs *r = kr_regs(t);
    struct kr_vm *vm = &t->mm->vm;
    u64 sp = r->rsp, fp;
    int nested = on_altstack(t, sp), enters = 0;
    sp -= REDZONE;
    if ((act->flags & SA_ONSTACK) && kr_altstack_flags(t, r->rsp) == 0) {
        sp = t->altstack.sp + t->altstack.size;
        enters = 1;
    }
    u64 frame = kr_sigframe_place(sp, vm->xsave_size, &fp);
    if ((nested || enters) && (frame < t->altstack.sp || frame - t->altstack.sp > t->altstack.size))
        return -EFAULT; /* overflow of the alternate stack */
    u64 end = fp + vm->xsave_size + 4;
    if (frame >= KR_WINDOW_END || end > KR_WINDOW_END)
        return -EFAULT;

    if (put_fpu(t, fp) < 0)
        return -EFAULT;
    struct kr_sigframe f;
    memset(&f, 0, sizeof f);
    f.pretcode = act->restorer;
    f.uc.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | (vm->xcr0 > 1 ? UC_FP_XSTATE : 0);
    f.uc.stack = t->altstack;
    f.uc.stack.flags = (t->altstack.flags & (s32)SS_AUTODISARM_) | kr_altstack_flags(t, r->rsp);
    put_registers(&f.uc.mc, t, saved, fp);
    f.uc.mask = saved;
    f.info = *si;
    if (!(act->flags & SA_RESTORER)) /* x86-64 has no other way to return */
        return -EFAULT;
    if (kr_copy_out(frame, &f, sizeof f) < 0)
        return -EFAULT;
    if (act->handler >=
        KR_WINDOW_END) /* the handler's address faults in the handler's frame, canonical or not, as on Linux */
        f.pretcode = 0;

    init_fpu(t->xsave);
    kr_cpu_set_xsave(t, t->xsave);
    r->rdi = (u64)si->si_signo;
    r->rsi = frame + offsetof(struct kr_sigframe, info);
    r->rdx = frame + offsetof(struct kr_sigframe, uc);
    r->rax = 0;
    r->rip = act->handler;
    r->rsp = frame;
    r->rflags &= ~(0x400ULL | 0x100ULL | 0x10000ULL); /* DF TF RF */
    if (t->altstack.flags & (s32)SS_AUTODISARM_)
        t->altstack = (struct kr_altstack){.flags = SS_DISABLE_};
    return 0;
}

/* Loads the FPU image of a frame, which the payload has written. An image that is not a well-formed extended
 * image is loaded as plain FXSAVE (fpu__restore_sig()). */
static long restore_fpu(struct kr_task *t, u64 fp) {
    struct kr_vm *vm = &t->mm->vm;
    u8 *x = kr_task_xsave(t);
    if (!x)
        return -EFAULT;
    if (!fp) {
        init_fpu(x);
        return kr_cpu_set_xsave(t, x);
    }
    struct fpx_sw sw;
    u32 magic2 = 0;
    memset(x, 0, 4096);
    if (kr_copy_in(x, fp, 512) < 0)
        return -EFAULT;
    memcpy(&sw, x + SW_RESERVED, sizeof sw);
    u64 features = 3;
    if (sw.magic1 == FP_MAGIC1 && sw.xstate_size >= 576 && sw.xstate_size <= vm->xsave_size &&
        kr_copy_in(&magic2, fp + sw.xstate_size, 4) == 0 && magic2 == FP_MAGIC2) {
        if (kr_copy_in(x + 512, fp + 512, sw.xstate_size - 512) < 0)
            return -EFAULT;
        memcpy(&features, x + 512, 8);
        features &= sw.xfeatures & vm->xcr0;
    }
    memset(x + SW_RESERVED, 0, 48);
    memset(x + 512, 0, 64);
    /* A component that the image leaves out gets its initial state. MXCSR is always loaded (SDM Vol. 1, 13.8,
     * XRSTOR), and KVM loads it with SSE. */
    if (!(features & 1)) {
        u16 fcw = 0x37f;
        memset(x, 0, 24);
        memset(x + 32, 0, 128);
        memcpy(x, &fcw, 2);
    }
    if (!(features & 2))
        memset(x + 160, 0, 256);
    features |= 3;
    memcpy(x + 512, &features, 8);
    u32 mxcsr;
    memcpy(&mxcsr, x + 24, 4);
    if (mxcsr & ~0xffffu)
        return -EFAULT; /* a reserved bit: XRSTOR would raise #GP */
    return kr_cpu_set_xsave(t, x);
}

long kr_sigframe_pop(struct kr_task *t, kr_sigset *mask) {
    struct kvm_regs *r = kr_regs(t);
    struct kr_ucontext uc;
    u64 frame = r->rsp - 8; /* the handler's RET took pretcode */
    if (kr_copy_in(&uc, frame + offsetof(struct kr_sigframe, uc), sizeof uc) < 0)
        return -EFAULT;
    const struct kr_sigcontext *m = &uc.mc;
    if (m->rip >= KR_WINDOW_END && m->rip >> 47) /* not canonical: the return would raise #GP */
        return -EFAULT;
    /* Linux sets the RPL to 3 and lets IRET fault where the selector is not a user segment's. */
    if ((m->cs | 3) != KR_USER_CS || ((uc.flags & UC_STRICT_RESTORE_SS) && (m->ss | 3) != KR_USER_SS))
        return -EFAULT;
    if (restore_fpu(t, m->fpstate) < 0)
        return -EFAULT;
    *r = (struct kvm_regs){.rax = m->rax,
                           .rbx = m->rbx,
                           .rcx = m->rcx,
                           .rdx = m->rdx,
                           .rsi = m->rsi,
                           .rdi = m->rdi,
                           .rsp = m->rsp,
                           .rbp = m->rbp,
                           .r8 = m->r8,
                           .r9 = m->r9,
                           .r10 = m->r10,
                           .r11 = m->r11,
                           .r12 = m->r12,
                           .r13 = m->r13,
                           .r14 = m->r14,
                           .r15 = m->r15,
                           .rip = m->rip,
                           .rflags = (m->rflags & KR_FLAGS_USER) | KR_FLAGS_FIXED};
    *mask = uc.mask;
    /* restore_altstack(): errors are ignored, as in the kernel */
    if (!on_altstack(t, r->rsp)) {
        u32 mode = (u32)uc.stack.flags & ~SS_AUTODISARM_;
        if (mode == SS_DISABLE_)
            t->altstack = (struct kr_altstack){.flags = SS_DISABLE_};
        else if ((mode == 0 || mode == SS_ONSTACK_) && uc.stack.size >= 2048)
            t->altstack = (struct kr_altstack){
                .sp = uc.stack.sp, .size = uc.stack.size, .flags = uc.stack.flags & (s32)SS_AUTODISARM_};
    }
    return 0;
}
