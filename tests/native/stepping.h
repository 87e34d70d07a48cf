/* SPDX-License-Identifier: Apache-2.0
 * Guest code in ring 3, run natively and one instruction at a time (TF): a test sets `start`, calls go(), and its on_signal() looks at
 * each instruction. The code begins and ends at signals: go() traps, the handler exchanges the registers, and go_home()
 * restores those of go().
 */
#ifndef KR_STEPPING_H
#define KR_STEPPING_H

#include "harness.h"
#include "machine/x86.h"
#include <asm/sigcontext.h>
#include <asm/signal.h>
#include <asm/ucontext.h>

#define TF 0x100ULL
#define ARITHMETIC 0x8d5ULL /* CF PF AF ZF SF OF */
#define STACK_WORDS 512

static struct kvm_regs start, now; /* the registers at the entry, and at the signal */
static volatile u32 steps;
static volatile enum { RUN, STEP } mode;
static volatile enum { NOTHING, RETURNED, EXITED, FAULTED, LOST } end;
static struct ucontext home;
static u64 *stack; /* the payload's: nothing below its top may be written */

static void on_signal(int sig, siginfo_t *info, void *ctx);

/* The registers in the order of struct kvm_regs. */
#define REGISTERS 18
#define EACH(s)                                                                                              \
    {                                                                                                        \
        &s->ax, &s->bx, &s->cx, &s->dx, &s->si, &s->di, &s->sp, &s->bp, &s->r8, &s->r9, &s->r10, &s->r11,    \
            &s->r12, &s->r13, &s->r14, &s->r15, &s->ip, &s->flags                                            \
    }
_Static_assert(sizeof(struct kvm_regs) == REGISTERS * 8, "linux/kvm.h");

static void to_kvm(struct sigcontext_64 *s, struct kvm_regs *r) {
    __u64 *from[] = EACH(s);
    for (u32 i = 0; i < REGISTERS; i++)
        ((__u64 *)r)[i] = *from[i];
}

static void from_kvm(struct sigcontext_64 *s, const struct kvm_regs *r) {
    __u64 *to[] = EACH(s);
    for (u32 i = 0; i < REGISTERS; i++)
        *to[i] = ((const __u64 *)r)[i];
}

/* Compares all registers; flags: the arithmetic flags, too. */
static void same(const char *what, const struct kvm_regs *a, const struct kvm_regs *b, int flags) {
    static const char names[][4] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rsp", "rbp", "r8",
                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
    const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;
    for (u32 i = 0; i < KR_COUNT(names); i++)
        if (x[i] != y[i]) {
            printf("%s: step %u: %.4s is 0x%llx, expected 0x%llx (call %llu)\n", what, steps, names[i],
                   (unsigned long long)x[i], (unsigned long long)y[i], (unsigned long long)start.rax);
            kr_test_failures++;
        }
    if (flags)
        CHECK_EQ(a->rflags & ARITHMETIC, b->rflags & ARITHMETIC);
}

/* Whether the signal is that of go(): then the code goes on at ip with the registers of `start` and these flags. */
static int begins(int sig, struct ucontext *u, u64 ip, u64 flags) {
    struct sigcontext_64 *s = (struct sigcontext_64 *)&u->uc_mcontext;
    if (sig != SIGILL || end != NOTHING || steps)
        return 0;
    home = *u;
    steps = 1;
    from_kvm(s, &start);
    s->flags = flags | (mode == STEP ? TF : 0);
    s->ip = ip;
    return 1;
}

static void go_home(struct ucontext *u) {
    struct sigcontext_64 *s = (struct sigcontext_64 *)&u->uc_mcontext;
    u64 fp = s->fpstate; /* the kernel's, of this signal */
    *s = *(struct sigcontext_64 *)&home.uc_mcontext;
    s->fpstate = fp;
    s->ip += 2; /* behind the UD2 of go() */
}

/* A call of the kernel's, with a restorer of its own, because the C library's headers are not here. */
__asm__(".text\nrestorer: mov $15, %eax\n syscall\n");
extern char restorer[];

static void handle(int sig) {
    struct kr_sigaction a = {.handler = (u64)on_signal,
                             .flags = SA_SIGINFO | 0x04000000 | SA_ONSTACK | SA_NODEFER,
                             .restorer = (u64)restorer};
    CHECK_EQ(kr_sys4(__NR_rt_sigaction, sig, &a, 0, 8), 0);
}

__attribute__((noipa)) static void go(void) {
    __asm__ volatile("ud2"
                     :
                     :
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
                       "r14", "r15", "cc", "memory");
}

#endif
