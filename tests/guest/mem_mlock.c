// mlock(2), mlock2, munlock, mlockall and the limit RLIMIT_MEMLOCK (for other users than root).
#include "guest.h"
int main(int argc, char **argv) {
    char *p = pages(64);
    struct rlimit r = {16 * PAGE, 16 * PAGE};
    TRY(mlock(p, 8 * PAGE));
    TRY(munlock(p, 8 * PAGE));
    TRY(mlock2(p, 8 * PAGE, MLOCK_ONFAULT));
    TRY(munlock(p, 8 * PAGE));
    TRY(setrlimit(RLIMIT_MEMLOCK, &r));
    if (getuid() == 0)
        MUST(setresuid(1000, 1000, 1000));
    TRY(mlock(p, 16 * PAGE));
    TRY(mlock(p, 17 * PAGE));
    TRY(mlockall(MCL_CURRENT));
    TRY(munlockall());
    p[63 * PAGE] = 1;
    munmap(p, PAGE);
    TRY(mlock(p, PAGE));
    TRY(mlock2(p + PAGE, PAGE, 64));
    return 0;
}
