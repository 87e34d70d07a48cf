// With SIGCHLD ignored or SA_NOCLDWAIT children vanish and wait gives ECHILD: sigaction(2).
#include "guest.h"
static volatile int count;
static void h(int s) { count++; }
int main(int argc, char **argv) {
    int s;
    signal(SIGCHLD, SIG_IGN);
    CHILD(_exit(1));
    TRY(wait(&s));
    on(SIGCHLD, h, SA_NOCLDWAIT | SA_RESTART);
    CHILD(_exit(2));
    TRY(wait(&s));
    say("handler ran %d", count);
    on(SIGCHLD, SIG_DFL, 0);
    reap("default", CHILD(_exit(3)));
    return 0;
}
