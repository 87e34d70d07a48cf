// Protection of single pages inside a large (huge-page sized) area, back and forth: mprotect(2).
#include "guest.h"
#define SIZE (16UL << 20)
int main(int argc, char **argv) {
    char *p = pages(SIZE / PAGE);
    memset(p, 1, SIZE);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZE / PAGE; i += 501)
            MUST(mprotect(p + i * PAGE, PAGE, PROT_READ));
        int faults = 0, fine = 0;
        for (volatile size_t i = 0; i < SIZE / PAGE; i += 167) {
            CATCH(p[i * PAGE]++);
            faults += fault.sig == SIGSEGV && fault.code == SEGV_ACCERR && fault.addr == p + i * PAGE;
            fine += !fault.sig;
        }
        say("round %d: %d faults, %d fine", round, faults, fine);
        MUST(mprotect(p, SIZE, PROT_READ | PROT_WRITE));
    }
    size_t sum = 0;
    for (size_t i = 0; i < SIZE; i += PAGE)
        sum += p[i];
    say("sum %zu", sum);
    return 0;
}
