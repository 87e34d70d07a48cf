// Memory that is taken away at the limit of the address space is taken away: munmap(2), setrlimit(2).
// krun: timeout=20

#include "guest.h"
#define BLOCK (2UL << 20)
#define DENSE 4
#define SPARSE 600
static sigjmp_buf again;
static void handler(int sig) { siglongjmp(again, sig); }
static unsigned long address_space(void) { // bytes
    unsigned long n = 0;
    sscanf(slurp("/proc/self/statm"), "%lu", &n);
    return n * PAGE;
}
int main(int argc, char **argv) {
    volatile char *dense = pages((DENSE + 2) * BLOCK / PAGE);
    volatile char *sparse = MUSTP(mmap(NULL, SPARSE * BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct rlimit limit = {0};
    volatile int caught = 0;
    for (size_t i = 0; i < (DENSE + 2) * BLOCK; i += PAGE)
        dense[i] = 1;
    limit.rlim_cur = limit.rlim_max = address_space();
    MUST(setrlimit(RLIMIT_AS, &limit));
    signal(SIGSEGV, handler);
    signal(SIGBUS, handler);
    if (!sigsetjmp(again, 1))
        for (size_t i = 0; i < SPARSE; i++) // a page table each, until the monitor has no room for more
            (void)sparse[i * BLOCK];
    for (volatile size_t i = 1; i <= DENSE; i++) {
        volatile char *hole = dense + i * BLOCK + 10 * PAGE;
        MUST(munmap((void *)hole, PAGE));
        if (sigsetjmp(again, 1))
            caught++;
        else
            *hole = 1;
    }
    EXPECT(caught == DENSE);
    return wrong;
}
