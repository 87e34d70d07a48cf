/* SPDX-License-Identifier: Apache-2.0
 * The kernel's rt_sigframe (arch/x86/include/asm/sigframe.h, uapi asm/sigcontext.h, asm/ucontext.h), byte for
 * byte. */
#ifndef KR_SIGFRAME_H
#define KR_SIGFRAME_H

#include "../machine/vmm.h"

struct kr_sigcontext {
    u64 r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
    u16 cs, gs, fs, ss;
    u64 error, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct kr_ucontext {
    u64 flags, link;
    struct kr_altstack stack;
    struct kr_sigcontext mc;
    kr_sigset mask;
};

struct kr_sigframe {
    u64 pretcode;
    struct kr_ucontext uc;
    siginfo_t info;
};

_Static_assert(sizeof(struct kr_sigcontext) == 256 && offsetof(struct kr_sigframe, info) == 312 &&
                   sizeof(struct kr_sigframe) == 440,
               "struct rt_sigframe is Linux ABI");

/* Computes the places of the frame below sp. Pure; used by kr_sigframe_push and by the unit tests. xsize:
 * bytes of the XSAVE image. Returns the frame's address; *fp is the address of the FPU area (64-byte
 * aligned). */
u64 kr_sigframe_place(u64 sp, u32 xsize, u64 *fp);

/* ss_flags as sigaltstack(2) shows them: SS_DISABLE, SS_ONSTACK or 0. */
int kr_altstack_flags(const struct kr_task *t, u64 sp);

/* Pushes a frame for the handler and sets the registers. 0 or -EFAULT (stack unusable). */
long kr_sigframe_push(struct kr_task *t, const siginfo_t *si, const struct kr_sigaction *act,
                      kr_sigset saved);
/* rt_sigreturn(2): restores the state from the frame at rsp - 8. *mask is the mask of the frame. 0 or
 * -EFAULT. */
long kr_sigframe_pop(struct kr_task *t, kr_sigset *mask);

#endif
