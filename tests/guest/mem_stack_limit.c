// A lower RLIMIT_STACK holds for the next program: recursion beyond it dies: getrlimit(2).
#include "guest.h"
static NOINLINE long deep(int n) {
    volatile char room[1024];
    room[0] = n & 1;
    return n ? deep(n - 1) + room[0] : 0;
}
int main(int argc, char **argv) {
    if (argc > 1)
        return say("sum %ld", deep(atoi(argv[1]))), 0;
    struct rlimit r = {1 << 20, 8 << 20};
    MUST(setrlimit(RLIMIT_STACK, &r));
    reap("900 KiB of 1 MiB", CHILD(execl(argv[0], argv[0], "700", NULL)));
    reap("3 MiB of 1 MiB", CHILD(execl(argv[0], argv[0], "3000", NULL)));
    return 0;
}
