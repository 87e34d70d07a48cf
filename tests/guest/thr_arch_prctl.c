// FS and GS bases by arch_prctl(2) and by instructions, kept over system calls; per thread.
#include "guest.h"
#include <sys/auxv.h>
#define ARCH_SET_GS 0x1001
#define ARCH_GET_FS 0x1003
#define ARCH_GET_GS 0x1004
static long blocks[3] = {111, 222, 333};
static long gs0(void) {
    long v;
    __asm__ volatile("mov %%gs:0,%0" : "=r"(v));
    return v;
}
static void *run(void *block) {
    unsigned long gs = 1, fs;
    syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
    EXPECT(gs == (unsigned long)blocks); // inherited
    TRY(syscall(SYS_arch_prctl, ARCH_SET_GS, block));
    for (int i = 0; i < 100; i++)
        sched_yield(), fs = gs0();
    syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
    EXPECT(fs == (unsigned long)pthread_self());
    return (void *)gs0();
}
int main(int argc, char **argv) {
    unsigned long v;
    TRY(syscall(SYS_arch_prctl, ARCH_SET_GS, &blocks[0]));
    say("%ld", (long)join(thread(run, &blocks[1]))), say("%ld", (long)join(thread(run, &blocks[2])));
    say("main %ld", gs0());
    if (getauxval(AT_HWCAP2) & 2) { // FSGSBASE allowed
        __asm__ volatile("wrgsbase %0" : : "r"(&blocks[2]));
        getppid();
        EXPECT(gs0() == 333);
        __asm__ volatile("rdfsbase %0" : "=r"(v));
        EXPECT(v == (unsigned long)pthread_self());
    }
    TRY(syscall(SYS_arch_prctl, ARCH_SET_GS, 0xffff800000000000));
    TRY(syscall(SYS_arch_prctl, 0x9999, 0));
    return wrong;
}
