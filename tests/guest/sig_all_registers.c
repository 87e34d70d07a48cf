// All general registers and flags are the same after a handler that clobbers them: sigreturn(2).
#include "guest.h"
static volatile int hits;
static void h(int s) {
    hits++;
    __asm__ volatile("mov $-1,%%rax; mov %%rax,%%rcx; mov %%rax,%%rdx; mov %%rax,%%rsi; mov %%rax,%%rdi; mov "
                     "%%rax,%%r8; mov %%rax,%%r9;"
                     "mov %%rax,%%r10; mov %%rax,%%r11; std; cld" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}
int main(int argc, char **argv) {
    struct itimerval t = {{0, 1000}, {0, 1000}};
    on(SIGALRM, h, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    long bad = 0, want = scaled(40);
    while (hits < want) {
        long r;
        __asm__ volatile(
            "mov $1,%%rax; mov $2,%%rbx; mov $3,%%rcx; mov $4,%%rdx; mov $5,%%rsi; mov $6,%%rdi; mov "
            "$8,%%r8; mov $9,%%r9;"
            "mov $10,%%r10; mov $11,%%r11; mov $12,%%r12; mov $13,%%r13; mov $14,%%r14; mov $20000,%%r15\n"
            "1: dec %%r15; jnz 1b\n"
            "add %%rbx,%%rax; add %%rcx,%%rax; add %%rdx,%%rax; add %%rsi,%%rax; add %%rdi,%%rax; add "
            "%%r8,%%rax;"
            "add %%r9,%%rax; add %%r10,%%rax; add %%r11,%%rax; add %%r12,%%rax; add %%r13,%%rax; add "
            "%%r14,%%rax"
            : "=a"(r)
            :
            : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc");
        bad += r != 98;
    }
    say("wrong %ld", bad);
    return 0;
}
