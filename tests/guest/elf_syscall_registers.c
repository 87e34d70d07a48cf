// A system call keeps all registers but rax, rcx, r11: rcx has the return address, r11 the flags: syscall(2).
// krun: static
#include "guest.h"
long call_with(unsigned long in[13],
               unsigned long out[13]); // rbx rdi rsi rdx r8 r9 r10 r12-r15 rbp, result rcx
extern char call_returned[];
__asm__(".globl call_with, call_returned\ncall_with: push %rbx; push %rbp; push %r12; push %r13; push %r14; "
        "push %r15\n"
        "push %rsi; mov %rdi,%rax\n"
        "mov 0(%rax),%rbx; mov 8(%rax),%rdi; mov 16(%rax),%rsi; mov 24(%rax),%rdx; mov 32(%rax),%r8; mov "
        "40(%rax),%r9\n"
        "mov 48(%rax),%r10; mov 56(%rax),%r12; mov 64(%rax),%r13; mov 72(%rax),%r14; mov 80(%rax),%r15; mov "
        "88(%rax),%rbp\n"
        "mov $39,%eax; stc; syscall\ncall_returned: xchg %rax,(%rsp)\n"
        "mov %rbx,0(%rax); mov %rdi,8(%rax); mov %rsi,16(%rax); mov %rdx,24(%rax); mov %r8,32(%rax); mov "
        "%r9,40(%rax)\n"
        "mov %r10,48(%rax); mov %r12,56(%rax); mov %r13,64(%rax); mov %r14,72(%rax); mov %r15,80(%rax); mov "
        "%rbp,88(%rax)\n"
        "mov %rcx,96(%rax); mov %r11,104(%rax); pushf; popq 112(%rax)\n"
        "pop %rax; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");
int main(int argc, char **argv) {
    unsigned long in[13], out[15];
    for (int i = 0; i < 13; i++)
        in[i] = 0x1111111100000000UL * (i + 1) + i;
    EXPECT(call_with(in, out) == getpid());
    EXPECT(!memcmp(in, out, 12 * 8));
    EXPECT(out[12] == (unsigned long)call_returned);
    EXPECT((out[13] & 0x201) == 0x201); // interrupts on, carry kept
    EXPECT((out[14] & 0x201) == 0x201);
    return wrong;
}
