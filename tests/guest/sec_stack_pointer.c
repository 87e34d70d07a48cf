// System calls with any stack pointer work and write nothing to it: syscall(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    static const unsigned long stacks[] = {0,
                                           8,
                                           0xfff,
                                           0x6a0000000000,
                                           0x7ffffffff000,
                                           0x8000000000000000,
                                           0xffff888000000000,
                                           0xffffffffffffffff};
    int bad = 0;
    for (size_t i = 0; i < COUNT(stacks); i++) {
        long r;
        __asm__ volatile("mov %%rsp,%%r12; mov %1,%%rsp; mov $39,%%eax; syscall; mov %%r12,%%rsp"
                         : "=a"(r)
                         : "r"(stacks[i])
                         : "rcx", "r11", "r12", "memory");
        bad += r != getpid();
    }
    say("wrong results %d", bad);
    char *page = pages(3), *copy = malloc(3 * PAGE);
    memset(page, 0x5a, 3 * PAGE), memcpy(copy, page, 3 * PAGE);
    for (int i = 0; i < 50; i++)
        __asm__ volatile("mov %%rsp,%%r12; mov %0,%%rsp; mov $110,%%eax; syscall; mov %%r12,%%rsp" ::"r"(
                             page + PAGE + i * 8)
                         : "rax", "rcx", "r11", "r12", "memory");
    say("stack touched %d", memcmp(page, copy, 3 * PAGE) != 0);
    return bad != 0;
}
