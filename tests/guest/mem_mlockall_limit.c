// mlockall(MCL_FUTURE) of an ordinary user: mappings beyond RLIMIT_MEMLOCK are EAGAIN and change nothing, brk
// fails, and without any right to lock the call is EPERM: mlockall(2), mmap(2).
#include "guest.h"
#define MIB (1UL << 20)

static void one(int flags, rlim_t limit) {
    struct rlimit r = {limit, limit};
    char *before = pages(3 * MIB / PAGE);
    before[0] = 'x';
    MUST(setrlimit(RLIMIT_MEMLOCK, &r));
    if (getuid() == 0)
        MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000));
    TRY(mlockall(flags));
    char *p = mmap(NULL, MIB / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("half: %s", p == MAP_FAILED ? errno_name(errno) : "ok");
    TRY(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    say("brk: %s", sbrk(4 * MIB) == (void *)-1 ? errno_name(errno) : "ok");
    if (!(flags & MCL_ONFAULT)) {
        TRY(mmap(before, 3 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        say("before: %d", before[0]);
    }
    if (p != MAP_FAILED)
        TRY(mremap(p, MIB / 2, 12 * MIB, MREMAP_MAYMOVE));
    TRY(munlockall());
    TRY(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

int main(int argc, char **argv) {
    static const int flags[] = {MCL_CURRENT, MCL_FUTURE, MCL_FUTURE | MCL_ONFAULT};
    static const rlim_t limits[] = {0, 2 * MIB};
    for (size_t i = 0; i < COUNT(limits); i++)
        for (size_t k = !!i; k < COUNT(flags);
             k++) /* with MCL_CURRENT the size of the whole program counts */
            reap("child", CHILD(one(flags[k], limits[i])));
    return wrong;
}
