// Guard pages between buffers: one byte too far in either direction faults exactly there: mprotect(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(5);
    MUST(mprotect(p, PAGE, PROT_NONE)), MUST(mprotect(p + 2 * PAGE, PAGE, PROT_NONE)),
        MUST(mprotect(p + 4 * PAGE, PAGE, PROT_NONE));
    CATCH(for (volatile int i = 0; i < 5000; i++) p[PAGE + i] = 1);
    say_fault("forwards", p);
    CATCH(for (volatile int i = PAGE - 1; i > -5000; i--) p[3 * PAGE + i] = 1);
    say_fault("backwards", p);
    CATCH(*(volatile long *)(p + 2 * PAGE - 4) = 1); // an access across the border reports the second page
    say_fault("across", p);
    CATCH(memset(p + PAGE, 2, 2 * PAGE));
    say("memset: code %s on page %ld", code_name(fault.sig, fault.code), (fault.addr - p) / (long)PAGE);
    return 0;
}
