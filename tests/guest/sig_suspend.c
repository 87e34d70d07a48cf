// sigsuspend(2) lets exactly the unblocked signal in and restores the mask; ppoll and pselect likewise.
// krun: static
#include "guest.h"
#include <sys/select.h>
static volatile int hits;
static void h(int s) { hits++; }
int main(int argc, char **argv) {
    sigset_t block, none, now;
    sigemptyset(&block), sigaddset(&block, SIGUSR1), sigaddset(&block, SIGUSR2), sigemptyset(&none);
    on(SIGUSR1, h, 0), on(SIGUSR2, h, 0);
    sigprocmask(SIG_BLOCK, &block, NULL);
    raise(SIGUSR1);
    say("hits %d", hits);
    TRY(sigsuspend(&none));
    sigprocmask(0, NULL, &now);
    say("hits %d, blocked again %d", hits, sigismember(&now, SIGUSR1));
    raise(SIGUSR1);
    struct timespec t = {20, 0};
    TRY(ppoll(NULL, 0, &t, &none));
    raise(SIGUSR1);
    TRY(pselect(0, NULL, NULL, NULL, &t, &none));
    say("hits %d", hits);
    raise(SIGUSR1), raise(SIGUSR2);
    sigdelset(&block, SIGUSR2);
    TRY(sigsuspend(&block));
    say("hits %d", hits);
    sigpending(&now);
    say("USR1 pending %d, USR2 pending %d", sigismember(&now, SIGUSR1), sigismember(&now, SIGUSR2));
    return 0;
}
