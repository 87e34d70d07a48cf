// Unmapping the middle leaves two working halves, the hole faults, and can be filled again: munmap(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(9);
    for (int i = 0; i < 9; i++)
        p[i * PAGE] = i + 1;
    MUST(munmap(p + 3 * PAGE, 3 * PAGE));
    for (int i = 0; i < 9; i++) {
        int v = 0;
        CATCH(v = *(volatile char *)(p + i * PAGE));
        say("page %d: %d %s", i, v, fault.sig ? code_name(fault.sig, fault.code) : "");
    }
    EXPECT(mmap(p + 3 * PAGE, 3 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           p + 3 * PAGE);
    EXPECT(p[4 * PAGE] == 0 && p[6 * PAGE] == 7);
    TRY(munmap(p + 1, PAGE));
    TRY(munmap(p, 0));
    return wrong;
}
