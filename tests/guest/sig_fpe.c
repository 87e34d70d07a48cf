// SIGFPE: integer division, SSE exceptions by feenableexcept, x87: codes, addresses: fenv(3).
// krun: static
#include "guest.h"
#include <fenv.h>
static volatile double zero, one = 1, big = 1e308, tiny = 1e-308;
int main(int argc, char **argv) {
    volatile int a = 1, b = 0, min = INT_MIN, minus = -1;
    CATCH(a = a / b);
    say("division by zero: %s %s, address in the code %d", signal_name(fault.sig),
        code_name(fault.sig, fault.code), labs(fault.addr - (char *)&main) < 4096);
    CATCH(a = min / minus);
    say("overflow: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    static const struct {
        int flag;
        const char *name;
    } all[] = {{FE_DIVBYZERO, "divide"},
               {FE_INVALID, "invalid"},
               {FE_OVERFLOW, "overflow"},
               {FE_UNDERFLOW, "underflow"},
               {FE_INEXACT, "inexact"}};
    for (volatile size_t i = 0; i < COUNT(all); i++) {
        feclearexcept(FE_ALL_EXCEPT);
        feenableexcept(all[i].flag);
        volatile double r UNUSED = 0;
        CATCH(switch (all[i].flag) {
            case FE_DIVBYZERO:
                r = one / zero;
                break;
            case FE_INVALID:
                r = zero / zero;
                break;
            case FE_OVERFLOW:
                r = big * big;
                break;
            case FE_UNDERFLOW:
                r = tiny * tiny;
                break;
            default:
                r = one / 3;
        });
        fedisableexcept(FE_ALL_EXCEPT);
        say("SSE %s: %s %s", all[i].name, signal_name(fault.sig), code_name(fault.sig, fault.code));
    }
    volatile long double x = 1, y = 0;
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO);
    CATCH(x = x / y; __asm__ volatile("fwait"));
    fedisableexcept(FE_ALL_EXCEPT);
    say("x87 divide: %s %s", signal_name(fault.sig), code_name(fault.sig, fault.code));
    say("unmasked again: %g", one / zero);
    return 0;
}
