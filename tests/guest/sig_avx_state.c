// AVX (and AVX-512, where present) registers are kept over handlers, also asynchronous ones: sigreturn(2).
#include "guest.h"
static volatile int hits;
__attribute__((target("avx"))) static void h(int s) {
    __asm__ volatile("vzeroall" ::: "memory");
    hits++;
}
__attribute__((target("avx"))) static int avx(long spin) {
    char in[32], out[32];
    for (int i = 0; i < 32; i++)
        in[i] = i * 7;
    __asm__ volatile("vmovdqu %1,%%ymm3; vmovdqu %1,%%ymm12; mov %2,%%rcx\n1: dec %%rcx; jnz 1b; vxorps "
                     "%%ymm3,%%ymm12,%%ymm12; vpor %%xmm12,%%xmm12,%%xmm12\n"
                     "vmovdqu %%ymm3,%0"
                     : "=m"(out)
                     : "m"(in), "r"(spin)
                     : "rcx", "xmm3", "xmm12", "memory");
    return memcmp(in, out, 32) != 0;
}
__attribute__((target("avx512f"))) static int avx512(long spin) {
    char in[64], out[64];
    unsigned k;
    for (int i = 0; i < 64; i++)
        in[i] = i * 3;
    __asm__ volatile("vmovdqu64 %2,%%zmm5; vmovdqu64 %2,%%zmm29; mov $0x5a5a,%%eax; kmovw %%eax,%%k3; mov "
                     "%3,%%rcx\n1: dec %%rcx; jnz 1b\n"
                     "vmovdqu64 %%zmm29,%0; kmovw %%k3,%1"
                     : "=m"(out), "=r"(k)
                     : "m"(in), "r"(spin)
                     : "rax", "rcx", "xmm5", "memory");
    return memcmp(in, out, 64) != 0 || k != 0x5a5a;
}
int main(int argc, char **argv) {
    struct itimerval t = {{0, 500}, {0, 500}};
    on(SIGALRM, h, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    int bad = 0, want = scaled(40);
    while (hits < want) {
        if (__builtin_cpu_supports("avx"))
            bad += avx(30000);
        if (__builtin_cpu_supports("avx512f"))
            bad += avx512(30000);
        bad += hits < 0;
    }
    say("wrong %d", bad);
    return 0;
}
