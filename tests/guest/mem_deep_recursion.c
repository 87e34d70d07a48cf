// The stack grows on demand up to the limit (7 of 8 MiB used here): getrlimit(2).
// krun: static musl
#include "guest.h"
static NOINLINE long deep(int n) {
    volatile char room[1024];
    room[0] = n & 1, room[1023] = 1;
    return n ? deep(n - 1) + room[0] + room[1023] - 1 : 0;
}
int main(int argc, char **argv) {
    struct rlimit r;
    MUST(getrlimit(RLIMIT_STACK, &r));
    if (r.rlim_cur != 8 << 20)
        return say("stack limit is not 8 MiB"), 0;
    say("sum %ld", deep(6500));
    volatile char *far = __builtin_alloca(6 << 20);
    far[0] = 3; // a jump over many pages
    say("far %d", far[0]);
    return 0;
}
