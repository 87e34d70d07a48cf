// The 128 bytes below the stack pointer survive signals and system calls: System V ABI.
// krun: static
#include "guest.h"
static volatile int hits;
static void h(int s) {
    volatile char fill[2000];
    memset((void *)fill, 0xee, sizeof(fill));
    hits++;
}
int main(int argc, char **argv) {
    struct itimerval t = {{0, 700}, {0, 700}};
    on(SIGALRM, h, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    long bad = 0, want = scaled(40);
    while (hits < want) {
        long lost;
        __asm__ volatile(
            "lea -128(%%rsp),%%rdi; mov $16,%%ecx; 1: mov %%rcx,-8(%%rdi,%%rcx,8); dec %%ecx; jnz 1b\n"
            "mov $20000,%%r8d; 2: dec %%r8d; jnz 2b\n mov $39,%%eax; syscall\n"
            "xor %%eax,%%eax; lea -128(%%rsp),%%rdi; mov $16,%%ecx; 3: cmp %%rcx,-8(%%rdi,%%rcx,8); je 4f; "
            "inc %%eax; 4: dec %%ecx; jnz 3b"
            : "=a"(lost)
            :
            : "rcx", "rdi", "r8", "r11", "memory", "cc");
        bad += lost;
    }
    say("lost words %ld", bad);
    return 0;
}
