// CPUID and what it promises: features that are announced can be used: leaves 1 and 7, XGETBV.
// krun: static
#include "guest.h"
#include <cpuid.h>
__attribute__((target("avx2"))) static int use_avx2(void) {
    int v[8] = {1, 2, 3, 4, 5, 6, 7, 8}, r[8];
    __asm__ volatile("vmovdqu %1,%%ymm0; vpaddd %%ymm0,%%ymm0,%%ymm0; vmovdqu %%ymm0,%0; vzeroupper"
                     : "=m"(r)
                     : "m"(v)
                     : "xmm0");
    return r[7];
}
__attribute__((target("avx512f"))) static int use_avx512(void) {
    int v[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, r[16];
    __asm__ volatile("vmovdqu32 %1,%%zmm17; vpaddd %%zmm17,%%zmm17,%%zmm17; vmovdqu32 %%zmm17,%0; vzeroupper"
                     : "=m"(r)
                     : "m"(v)
                     : "memory");
    return r[15];
}
int main(int argc, char **argv) {
    unsigned a, b, c, d, lo, hi;
    EXPECT(__get_cpuid(0, &a, &b, &c, &d) && a >= 1);
    __get_cpuid(1, &a, &b, &c, &d);
    say("sse2 %d, fxsr %d, tsc %d, cx8 %d", !!(d & bit_SSE2), !!(d & bit_FXSAVE), d >> 4 & 1, d >> 8 & 1);
    if (c & bit_OSXSAVE) {
        __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        EXPECT((lo & 3) == 3);
        EXPECT(!(c & bit_AVX) || (lo & 7) == 7);
    }
    EXPECT(!__builtin_cpu_supports("avx2") || use_avx2() == 16);
    EXPECT(!__builtin_cpu_supports("avx512f") || use_avx512() == 32);
    if (c & bit_POPCNT) {
        long n = 0xff00ff;
        __asm__("popcnt %0,%0" : "+r"(n));
        say("popcnt %ld", n);
    }
    if (c & bit_RDRND) {
        unsigned char ok = 0;
        for (int i = 0; i < 100 && !ok; i++)
            __asm__ volatile("rdrand %0; setc %1" : "=r"(a), "=qm"(ok));
        EXPECT(ok);
    }
    return wrong;
}
