// Floating point: results of libm, rounding modes, exceptions flags, long double, denormals: fenv(3).
// krun: static musl
#include "guest.h"
#include <fenv.h>
#include <math.h>
int main(int argc, char **argv) {
    volatile double one = 1, three = 3, zero = 0, tiny = 5e-324;
    say("%.17g %.17g %.17g", sin(one), exp(one) / three, pow(2, 0.5));
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++)
        fesetround(modes[i]), getppid(), say("%.20g %ld", one / three, lrint(-2.5));
    fesetround(FE_TONEAREST), feclearexcept(FE_ALL_EXCEPT);
    volatile double inf = one / zero;
    say("divide flag %d, invalid flag %d, %g", !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_INVALID), inf);
    volatile long double x = 1;
    say("%.25Lg, %g", x / 3, tiny / 2 + tiny);
    return 0;
}
