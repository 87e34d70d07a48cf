// Who raises the limit of descriptors by a few gets the numbers right above it, as valgrind does:
// setrlimit(2), fcntl(2) F_DUPFD.
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit r;
    MUST(getrlimit(RLIMIT_NOFILE, &r));
    if (argc == 1) { // begin with a known limit
        r.rlim_cur = 512;
        MUST(setrlimit(RLIMIT_NOFILE, &r));
        MUST(execl("/proc/self/exe", argv[0], "x", (char *)0));
    }
    EXPECT(r.rlim_cur == 512 && r.rlim_max >= 1024);
    SHOW(fcntl(0, F_DUPFD, 512));
    r.rlim_cur += 10;
    MUST(setrlimit(RLIMIT_NOFILE, &r));
    for (int i = 0; i < 10; i++)
        SHOW(fcntl(0, F_DUPFD, 512));
    SHOW(fcntl(0, F_DUPFD, 512)), SHOW(dup2(0, 515)), SHOW(dup2(0, 522));
    int p = CHILD(SHOW(fcntl(515, F_GETFD)));
    reap("child", p);
    return wrong;
}
