// A page taken away by one thread faults in another that had it in its TLB: mprotect(2), munmap(2).
#include "guest.h"
static volatile char *page;
static volatile int stage;
static void *run(void *a) {
    char c = 0;
    while (stage < 1)
        c += page[0]; // hot in the TLB
    CATCH(for (int i = 0; i < 1000; i++) page[5] = c);
    say_fault("after mprotect", (void *)page);
    stage = 2;
    CATCH(for (;;) c += page[7]);
    say_fault("after munmap", (void *)page);
    return NULL;
}
int main(int argc, char **argv) {
    page = pages(1);
    page[5] = 0;
    pthread_t t = thread(run, NULL);
    pause_ms(20);
    MUST(mprotect((void *)page, PAGE, PROT_READ));
    stage = 1;
    while (stage < 2)
        ;
    pause_ms(20);
    MUST(munmap((void *)page, PAGE));
    join(t);
    return 0;
}
