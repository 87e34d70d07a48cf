/* SPDX-License-Identifier: Apache-2.0
 * process/sigframe.c: a frame is what the kernel makes (its layout is compared with a real one), goes back to
 * where it came from, and a forged one gives no forbidden state. Sources: sigframe.c cpu.c
 * kr_alloc.c */
#include "harness.h"
#include "machine/mm.h"
#include "process/sigframe.h"
#include "machine/x86.h"
#include <asm/signal.h>

static u8 fpu[4096];
static u32 sets;
int kr_vcpu_get_xsave(struct kr_vm *vm, struct kr_vcpu *v, void *buf) {
    (void)vm;
    (void)v;
    memcpy(buf, fpu, sizeof fpu);
    return 0;
}
int kr_vcpu_set_xsave(struct kr_vm *vm, struct kr_vcpu *v, const void *buf) {
    u64 features;
    u32 mxcsr;
    (void)v;
    memcpy(fpu, buf, sizeof fpu);
    memcpy(&features, fpu + 512, 8);
    memcpy(&mxcsr, fpu + 24, 4);
    /* What KVM_SET_XSAVE or the CPU would refuse, or worse, take. */
    CHECK(!(features & ~vm->xcr0));
    CHECK(!(mxcsr & ~0xffffu));
    for (u32 i = 520; i < 576; i++)
        CHECK_EQ(fpu[i], 0);
    sets++;
    return 0;
}
u8 *kr_task_xsave(struct kr_task *t) {
    if (!t->xsave)
        t->xsave = kr_alloc(4096);
    return t->xsave;
}

static struct kr_task *t;
static u8 *stack; /* 64 KiB */
static u64 sp;

static void random_state(void) {
    struct kvm_regs *r = kr_regs(t);
    u64 *w = (u64 *)r;
    for (u32 i = 0; i < sizeof *r / 8; i++)
        w[i] = kr_test_random() << 11 ^ kr_test_random();
    r->rip = 0x400000 + kr_test_below(1 << 20);
    r->rsp = sp = (u64)stack + 40000 + kr_test_below(4096);
    r->rflags = (kr_test_random() & KR_FLAGS_USER & ~0x10000ULL) | KR_FLAGS_FIXED; /* RF is not kept */
    for (u32 i = 0; i < sizeof fpu; i++)
        fpu[i] = (u8)kr_test_random();
    u64 features = 7;
    u32 mxcsr = 0x1f80;
    memset(fpu + 464, 0, 112);
    memcpy(fpu + 512, &features, 8);
    memcpy(fpu + 24, &mxcsr, 4);
}

static void there_and_back(void) {
    for (int i = 0; i < 2000; i++) {
        random_state();
        struct kvm_regs before = *kr_regs(t);
        static u8 fpu_before[4096];
        memcpy(fpu_before, fpu, sizeof fpu);
        int alt = (int)kr_test_below(2);
        t->altstack = alt ? (struct kr_altstack){(u64)stack, 0, 0, 16384} : (struct kr_altstack){.flags = 2};
        struct kr_sigaction act = {0x410000, 0x04000000 | (alt ? SA_ONSTACK : 0), 0x420000, 0};
        siginfo_t si = {.si_signo = 11, .si_code = 1};
        si.si_addr = (void *)0x1234;
        t->trapno = 14;
        t->error = 6;
        t->cr2 = 0x1234;
        CHECK_EQ(kr_sigframe_push(t, &si, &act, 0x8000000000000001ULL), 0);
        struct kvm_regs *r = kr_regs(t);
        struct kr_sigframe f;
        memcpy(&f, (void *)r->rsp, sizeof f);
        CHECK_EQ(r->rip, 0x410000);
        CHECK_EQ(r->rdi, 11);
        CHECK_EQ(r->rsi, r->rsp + 312);
        CHECK_EQ(r->rdx, r->rsp + 8);
        CHECK_EQ(r->rax, 0);
        CHECK_EQ(r->rsp & 15, 8); /* as after a CALL */
        CHECK(!(r->rflags & 0x500));
        CHECK_EQ(f.pretcode, 0x420000);
        CHECK_EQ(f.info.si_signo, 11);
        CHECK_EQ(f.uc.mask, 0x8000000000000001ULL);
        CHECK_EQ(f.uc.mc.cr2, 0x1234);
        CHECK_EQ(f.uc.mc.trapno, 14);
        CHECK_EQ(f.uc.mc.error, 6);
        CHECK_EQ(f.uc.mc.cs, 0x33);
        CHECK_EQ(f.uc.mc.ss, 0x2b);
        CHECK(!(f.uc.mc.fpstate & 63));
        CHECK_EQ(f.uc.stack.flags, alt ? 0 : 2);
        if (alt)
            CHECK(r->rsp > (u64)stack && r->rsp < (u64)stack + 16384);
        else
            CHECK(f.uc.mc.fpstate + t->mm->vm.xsave_size + 4 <= sp - 128); /* the red zone stays */
        u32 magic[2];
        memcpy(&magic[0], (void *)(f.uc.mc.fpstate + 464), 4);
        memcpy(&magic[1], (void *)(f.uc.mc.fpstate + t->mm->vm.xsave_size), 4);
        CHECK(magic[0] == 0x46505853 && magic[1] == 0x46505845);
        /* The handler returns. */
        r->rsp += 8;
        kr_sigset mask = 0;
        CHECK_EQ(kr_sigframe_pop(t, &mask), 0);
        CHECK_EQ(mask, 0x8000000000000001ULL);
        CHECK(memcmp(r, &before, sizeof before) == 0);
        CHECK(memcmp(fpu, fpu_before, t->mm->vm.xsave_size) == 0);
        if (kr_test_failures > 5)
            return;
    }
}

/* Bytes that a payload made up. */
static void forged(void) {
    u32 taken = 0;
    for (int i = 0; i < 20000; i++) {
        random_state();
        struct kr_sigaction act = {0x410000, 0x04000000, 0x420000, 0};
        siginfo_t si = {.si_signo = 10};
        t->altstack = (struct kr_altstack){.flags = 2};
        CHECK_EQ(kr_sigframe_push(t, &si, &act, 0), 0);
        struct kvm_regs *r = kr_regs(t);
        u64 fp = ((struct kr_sigframe *)r->rsp)->uc.mc.fpstate;
        for (u64 k = 1 + kr_test_below(5); k; k--) {
            u64 at = kr_test_below(2) ? r->rsp + kr_test_below(432) : fp + kr_test_below(700);
            u64 v = kr_test_below(2) ? kr_test_random() : ~0ULL;
            memcpy((void *)at, &v, 1ULL << kr_test_below(4));
        }
        if (kr_test_below(8) == 0)
            ((struct kr_sigframe *)r->rsp)->uc.mc.fpstate =
                kr_test_below(2) ? 0 : (u64)stack + 65536 - kr_test_below(600);
        r->rsp += 8;
        kr_sigset mask;
        if (kr_sigframe_pop(t, &mask) < 0)
            continue;
        taken++;
        CHECK(!(r->rflags & ~(KR_FLAGS_USER | KR_FLAGS_FIXED)));
        CHECK(!(r->rflags & 0x3000)); /* IOPL */
        CHECK((r->rflags & KR_FLAGS_FIXED) == KR_FLAGS_FIXED);
        CHECK(r->rip < KR_WINDOW_END || !(r->rip >> 47));
        if (kr_test_failures > 5)
            return;
    }
    CHECK(taken > 1000);
    kr_sigset mask;
    kr_regs(t)->rsp = 0x7fff00000000ULL;
    CHECK_EQ(kr_sigframe_pop(t, &mask), -EFAULT);
    kr_regs(t)->rsp = 8;
    CHECK_EQ(kr_sigframe_pop(t, &mask), -EFAULT);
    kr_regs(t)->rsp = 0;
    CHECK_EQ(kr_sigframe_pop(t, &mask), -EFAULT);
}

static void bad_stacks(void) {
    struct kr_sigaction act = {0x410000, 0x04000000, 0x420000, 0};
    siginfo_t si = {.si_signo = 10};
    static const u64 bad[] = {0,         8, 128, 0x7fff00000000ULL, ~0ULL, KR_WINDOW_END, KR_WINDOW_END + 100,
                              1ULL << 63};
    for (u32 i = 0; i < KR_COUNT(bad); i++) {
        random_state();
        t->altstack = (struct kr_altstack){.flags = 2};
        kr_regs(t)->rsp = bad[i];
        CHECK_EQ(kr_sigframe_push(t, &si, &act, 0), -EFAULT);
    }
    random_state();
    act.flags |= SA_ONSTACK;
    t->altstack = (struct kr_altstack){(u64)stack, 0, 0, 2048}; /* too small for the FPU state */
    CHECK_EQ(kr_sigframe_push(t, &si, &act, 0), t->mm->vm.xsave_size > 1500 ? -EFAULT : 0);
    t->altstack = (struct kr_altstack){(u64)stack, 0, 0, 16384};
    CHECK_EQ(kr_altstack_flags(t, (u64)stack), 0); /* sp must be above the base */
    CHECK_EQ(kr_altstack_flags(t, (u64)stack + 1), 1);
    CHECK_EQ(kr_altstack_flags(t, (u64)stack + 16384), 1);
    CHECK_EQ(kr_altstack_flags(t, (u64)stack + 16385), 0);
    t->altstack.flags = (s32)(1u << 31);
    CHECK_EQ(kr_altstack_flags(t, (u64)stack + 100), 0);
}

/* A real frame of this kernel. */
static u64 seen_info, seen_uc, seen_fp, seen_sp;
static u32 seen_magic, seen_flags;
__attribute__((no_sanitize("address", "undefined"))) static void handler(int sig, siginfo_t *si,
                                                                         struct kr_ucontext *uc) {
    if (sig == 10) {
        seen_info = (u64)si;
        seen_uc = (u64)uc;
        seen_fp = uc->mc.fpstate;
        seen_sp = uc->mc.rsp;
        seen_flags = (u32)uc->flags;
        seen_magic = *(u32 *)(uc->mc.fpstate + 464);
    }
}
__asm__(".text\ntest_restorer: mov $15, %eax\n syscall\n");
extern void test_restorer(void);

static void as_the_kernel(void) {
    struct kr_sigaction act = {(u64)handler, 0x04000004 /* SA_RESTORER | SA_SIGINFO */, (u64)test_restorer,
                               0},
                        old;
    CHECK_EQ(kr_sys4(__NR_rt_sigaction, 10, &act, &old, 8), 0);
    kr_sys2(__NR_kill, kr_sys0(__NR_getpid), 10);
    kr_sys4(__NR_rt_sigaction, 10, &old, 0, 8);
    CHECK_EQ(seen_info - seen_uc, offsetof(struct kr_sigframe, info) - offsetof(struct kr_sigframe, uc));
    CHECK_EQ(seen_magic, 0x46505853);
    CHECK_EQ(seen_flags & 7, 7);
    CHECK(!(seen_fp & 63));
    u64 fp, frame = kr_sigframe_place(seen_sp - 128, *(u32 *)(seen_fp + 480), &fp); /* xstate_size */
    CHECK_EQ(fp, seen_fp);
    CHECK_EQ(frame + 8, seen_uc);
}

void test_main(void) {
    t = kr_test_task();
    static struct kr_vcpu vcpu; /* its state is the functions above */
    t->vcpu = &vcpu;
    stack = kr_test_window(65536);
    static const u32 sizes[] = {576, 832, 2696};
    as_the_kernel();
    for (u32 i = 0; i < KR_COUNT(sizes); i++) {
        t->mm->vm.xsave_size = sizes[i];
        t->mm->vm.xcr0 = i == 0 ? 3 : i == 1 ? 7 : 0xe7;
        if (i == 0) /* random_state() has AVX in its header */
            t->mm->vm.xcr0 = 7;
        there_and_back();
        forged();
        bad_stacks();
    }
    CHECK(sets > 1000);
}
