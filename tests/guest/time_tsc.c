// RDTSC and RDTSCP work in ring 3 and grow; PR_SET_TSC can forbid them: prctl(2).
#include "guest.h"
#include <sys/prctl.h>
#include <x86intrin.h>
int main(int argc, char **argv) {
    unsigned aux;
    unsigned long long a = __rdtsc(), b = __rdtscp(&aux), c = __rdtsc();
    EXPECT(a < b && b < c);
    pause_ms(10);
    EXPECT(__rdtsc() - c > 1000000);
    int odd = 0;
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0) {
        CATCH(__rdtsc());
        odd = fault.sig != SIGSEGV;
        prctl(PR_SET_TSC, PR_TSC_ENABLE);
    } else // refused, but never silently without effect
        odd = errno != EINVAL && errno != EPERM;
    say("odd %d", odd);
    EXPECT(__rdtsc() > c);
    return wrong;
}
