// Real-time signals queue in order, lower numbers first; standard signals merge: signal(7).
#include "guest.h"
static char order[200];
static void h(int s, siginfo_t *i, void *c) {
    sprintf(order + strlen(order), "%d:%d ", s >= SIGRTMIN ? s - SIGRTMIN : -s,
            s >= SIGRTMIN ? i->si_value.sival_int : 0);
}
int main(int argc, char **argv) {
    sigset_t all, old;
    for (int s = SIGRTMIN; s < SIGRTMIN + 4; s++) {
        struct sigaction a = {.sa_sigaction = h, .sa_flags = SA_SIGINFO};
        sigfillset(&a.sa_mask);
        sigaction(s, &a, NULL);
    }
    struct sigaction a = {.sa_sigaction = h, .sa_flags = SA_SIGINFO};
    sigfillset(&a.sa_mask), sigaction(SIGUSR1, &a, NULL);
    sigfillset(&all), sigprocmask(SIG_SETMASK, &all, &old);
    for (int n = 0; n < 3; n++)
        for (int s = 3; s >= 0; s--)
            sigqueue(getpid(), SIGRTMIN + s, (union sigval){.sival_int = n});
    for (int n = 0; n < 5; n++)
        kill(getpid(), SIGUSR1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    for (char *p = strtok(order, " "); p;
         p = strtok(NULL, " ")) // handlers stack up: the last frame runs first
        say("%s", p);
    return 0;
}
