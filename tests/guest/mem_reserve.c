// 64 GiB of PROT_NONE cost nothing; pieces of it are committed by mprotect and by MAP_FIXED: mmap(2).
#include "guest.h"
#define GIB (1UL << 30)
int main(int argc, char **argv) {
    char *p = mmap(NULL, 64 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(p != MAP_FAILED);
    CATCH(*(volatile char *)(p + 33 * GIB));
    say_fault("reserved", p);
    long sum = 0;
    for (unsigned long i = 0; i < 64; i++) {
        char *at = p + i * GIB + 123 * PAGE;
        if (i & 1)
            MUST(mprotect(at, 3 * PAGE, PROT_READ | PROT_WRITE));
        else
            MUSTP(mmap(at, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        at[0] = at[3 * PAGE - 1] = i;
        CATCH(*(volatile char *)(at + 3 * PAGE) = 1);
        sum += at[0] + (fault.code == SEGV_ACCERR);
    }
    say("sum %ld", sum);
    TRY(munmap(p, 64 * GIB));
    return wrong;
}
