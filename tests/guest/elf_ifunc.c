// Indirect functions are resolved at start with the help of CPUID: gcc's ifunc attribute.
// krun: static no-pie static-pie
#include "guest.h"
#include <cpuid.h>
static int plain(void) { return 1; }
static int other(void) { return 2; }
static int (*choose(void))(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (d & bit_SSE2) ? plain : other;
}
int chosen(void) __attribute__((ifunc("choose")));
int main(int argc, char **argv) { return say("chosen %d", chosen()), 0; }
