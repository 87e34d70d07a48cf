// Jumps to each byte of the code that a monitor may keep in a payload's reach, and writes to the pages beside
// it, end the process that makes them at most: sigaction(2). krun: static timeout=90
#include "guest.h"
#include <pthread.h>
#include <sys/wait.h>
#define AREA 0x6c0000100000UL // of the first vCPU; the stub is its first page
#define AREA_SIZE 0x8000UL
#define CODE 832 // bytes that are tried; the code is shorter
static void jump(unsigned long at, unsigned long flags) {
    __asm__ volatile(
        "sub $1024,%%rsp; push %[flags]; popf; mov $39,%%eax; lea 1f(%%rip),%%rcx; mov $0x202,%%r11d\n"
        "jmp *%[at]; 1: add $1024,%%rsp"
        :
        : [at] "b"(at), [flags] "S"(flags)
        : "rax", "rcx", "rdx", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory");
}
static unsigned ring(void) {
    unsigned cs;
    __asm__ volatile("mov %%cs,%0" : "=r"(cs));
    return cs & 3;
}
static void *scribble(void *arg) {
    unsigned long x = (unsigned long)arg;
    for (;;) {
        x = x * 6364136223846793005UL + 1442695040888963407UL;
        volatile unsigned long *page = (void *)(AREA + (x >> 60 & 3) * AREA_SIZE + PAGE);
        page[x >> 40 & 511] = x >> 20 & 1 ? x : ~0UL;
    }
    return NULL;
}
// A process's end: 127 would be that of a monitor.
static int sound(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}
int main(int argc, char **argv) {
    static const unsigned long flags[] = {0x202, 0x302, 0x602, 0x40202}; // none, TF, DF, AC
    int unsound = 0;
    for (unsigned long off = 0; off < CODE; off++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            alarm(2);
            jump(AREA + off, flags[off % COUNT(flags)]);
            jump(AREA + off, 0x202);
            long pid = syscall(SYS_getpid); // where SYSCALL enters ring 0, it comes back to ring 3
            _exit(pid < 0 || ring() != 3 ? 127 : 0);
        }
        unsound += !sound(child);
    }
    say("jumps that ended a monitor: %d", unsound);
    for (int i = 0; i < 3; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            pthread_t t;
            alarm(1);
            pthread_create(&t, NULL, scribble, (void *)(unsigned long)(i + 1));
            for (;;)
                for (int nr = 102; nr < 109; nr++)
                    syscall(nr == 105 || nr == 106 ? SYS_getpid : nr);
        }
        unsound += !sound(child);
    }
    say("writes that ended a monitor: %d", unsound);
    EXPECT(syscall(SYS_getpid) == getpid() && syscall(SYS_gettid) == getpid());
    return wrong || unsound;
}
