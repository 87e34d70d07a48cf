// RLIMIT_CPU: SIGXCPU at the soft limit, SIGKILL at the hard one: getrlimit(2).
// krun: timeout=40
#include "guest.h"
static volatile int hits;
static void h(int s) { hits++; }
int main(int argc, char **argv) {
    struct rlimit r = {1, 2};
    reap("default", CHILD(setrlimit(RLIMIT_CPU, &r); for (;;)));
    reap("handled",
         CHILD(on(SIGXCPU, h, 0); setrlimit(RLIMIT_CPU, &r); while (!hits); say("SIGXCPU seen"); for (;;)));
    return 0;
}
