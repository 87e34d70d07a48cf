// Jumps to any address a monitor may use (low, high, stubs, kernel half) only fault: sigaction(2).
// krun: timeout=40
#include "guest.h"
static int own(unsigned long at, char *maps) {
    for (char *line = maps; line && *line; line = strchr(line, '\n'), line += !!line) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && at >= from && at < to)
            return 1;
    }
    return 0;
}
int main(int argc, char **argv) {
    static const unsigned long starts[] = {0,
                                           0x1000,
                                           0x8000,
                                           0xf000,
                                           0x6a0000000000,
                                           0x4ffffffff000,
                                           0x555555554000,
                                           0x6c0000000000,
                                           0x7ffff7ff0000,
                                           0x7fffffff0000,
                                           0x7ffffffff000,
                                           0x800000000000,
                                           0xffff800000000000,
                                           0xffffffff80000000,
                                           0xffffffffff600000,
                                           0xffffffffffffe000};
    char *maps = MUSTP(slurp("/proc/self/maps"));
    int bad = 0, mapped = 0, vsyscall = 0;
    for (volatile size_t i = 0; i < COUNT(starts); i++)
        for (volatile unsigned long off = 0; off < 16 * PAGE; off += PAGE / 2 + 13) {
            volatile unsigned long at = starts[i] + off;
            if (own(at, maps)) {
                mapped++;
                continue;
            }
            vsyscall += at >> 12 == 0xffffffffff600;
            CATCH(((void (*)(void))at)());
            bad += fault.sig != SIGSEGV;
        }
    say("jumps that did not give SIGSEGV: %d", bad);
    for (volatile unsigned long at = 0x1000; at < 0x800000000000; at = at * 3 + PAGE) { // and data
        if (own(at, maps))
            continue;
        CATCH(*(volatile long *)at);
        bad += fault.sig != SIGSEGV;
        CATCH(*(volatile long *)at = 1);
        bad += fault.sig != SIGSEGV;
    }
    say("wrong %d, ring still %d", bad, ({
            unsigned cs;
            __asm__("mov %%cs,%0" : "=r"(cs));
            cs & 3;
        }));
    return bad != 0;
}
