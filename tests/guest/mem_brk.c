// brk(2): grow, contents zero after shrinking and growing again, faults above.
// krun: static musl-static no-pie
#include "guest.h"
int main(int argc, char **argv) {
    char *start = sbrk(0);
    start = (char *)(((uintptr_t)start + PAGE - 1) & -PAGE);
    EXPECT(syscall(SYS_brk, start + 100 * PAGE) == (long)(start + 100 * PAGE));
    memset(start, 5, 100 * PAGE);
    EXPECT(syscall(SYS_brk, start + 50 * PAGE) == (long)(start + 50 * PAGE));
    CATCH(*(volatile char *)(start + 60 * PAGE));
    say_fault("above the break", start);
    EXPECT(syscall(SYS_brk, start + 100 * PAGE) == (long)(start + 100 * PAGE));
    say("below %d, above %d", start[50 * PAGE - 1], start[50 * PAGE]);
    EXPECT(syscall(SYS_brk, start + 10 * PAGE + 1) == (long)(start + 10 * PAGE + 1)); // rounds up to the page
    start[11 * PAGE - 1] = 1;
    CATCH(*(volatile char *)(start + 11 * PAGE));
    say_fault("after the rounding", start);
    EXPECT(syscall(SYS_brk, 0x7fffffff0000) == (long)(start + 10 * PAGE + 1)); // impossible: unchanged
    return wrong;
}
