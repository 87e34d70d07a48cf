// With every descriptor number in use: fork, threads and vfork need none.
#include "guest.h"
static void *run(void *a) { return a; }
static void all(const char *what, rlim_t soft, rlim_t hard) {
    struct rlimit r = {soft, hard};
    say("%s", what);
    MUST(setrlimit(RLIMIT_NOFILE, &r));
    while (dup(0) >= 0)
        ;
    say("%s", errno_name(errno));
    pid_t p = vfork();
    if (!p)
        _exit(4);
    reap("vfork", p);
    EXPECT(join(thread(run, (void *)7L)) == (void *)7L);
    if (hard > soft) {
        p = CHILD(_exit(dup(0) < 0 && errno == EMFILE ? 5 : 6));
        reap("fork", p);
    }
}
int main(int argc, char **argv) {
    all("soft limit", 64, 1024);
    all("hard limit", 128, 128);
    return wrong;
}
