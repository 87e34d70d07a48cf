// A handler starts with the direction flag clear, and the interrupted code gets its own back: System V ABI.
#include "guest.h"
static volatile unsigned long seen, hits;
static void h(int s) {
    unsigned long f;
    __asm__ volatile("pushf; pop %0" : "=r"(f)::"memory");
    seen |= f, hits++;
}
int main(int argc, char **argv) {
    unsigned long after;
    on(SIGUSR1, h, 0);
    long pid = getpid();
    __asm__ volatile("std; mov $62,%%eax; mov %1,%%rdi; mov $10,%%esi; syscall; pushf; pop %0; cld"
                     : "=&r"(after)
                     : "m"(pid)
                     : "rax", "rdi", "rsi", "rcx", "r11", "memory", "cc");
    say("hits %lu, in the handler %lu, after %lu", hits, seen >> 10 & 1, after >> 10 & 1);
    return 0;
}
