// unshare(CLONE_NEWUSER) with an address space that is full: it works or is ENOMEM, and the process goes on:
// unshare(2). krun: host
#include "guest.h"

// soft: only the soft limit is low, so that nothing keeps the call from working.
static void one(rlim_t bytes, int soft) {
    struct rlimit r, seen;
    MUST(getrlimit(RLIMIT_AS, &r));
    r.rlim_cur = bytes;
    if (!soft)
        r.rlim_max = bytes;
    MUST(setrlimit(RLIMIT_AS, &r));
    long done = unshare(CLONE_NEWUSER);
    int e = errno;
    EXPECT(done == 0 || (!soft && e == ENOMEM));
    MUST(getrlimit(RLIMIT_AS, &seen));
    EXPECT(seen.rlim_cur == r.rlim_cur && seen.rlim_max == r.rlim_max);
}

int main(int argc, char **argv) {
    for (int soft = 0; soft < 2; soft++)
        for (int mb = 0; mb < 40; mb += 8)
            reap("child", CHILD(one((rlim_t)mb << 20, soft)));
    return wrong;
}
