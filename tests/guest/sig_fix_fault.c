// A handler makes the page accessible and the instruction is repeated: mprotect(2), sigaction(2).
// krun: static
#include "guest.h"
static char *area;
static volatile int hits;
static void h(int s, siginfo_t *i, void *c) {
    hits++;
    MUST(mprotect((void *)((uintptr_t)i->si_addr & -PAGE), PAGE, PROT_READ | PROT_WRITE));
}
int main(int argc, char **argv) {
    area = pages(200);
    MUST(mprotect(area, 200 * PAGE, PROT_NONE));
    on_info(SIGSEGV, h, 0);
    for (int i = 0; i < 200; i++)
        area[i * PAGE + i] = i;
    int sum = 0;
    for (int i = 0; i < 200; i++)
        sum += (unsigned char)area[i * PAGE + i];
    say("hits %d, sum %d", hits, sum);
    return 0;
}
