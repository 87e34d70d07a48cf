// PR_SET_PDEATHSIG: the signal arrives when the parent thread ends: prctl(2).
#include "guest.h"
#include <sys/prctl.h>
int main(int argc, char **argv) {
    int p[2];
    char text[100] = "";
    MUST(pipe(p));
    reap("parent", CHILD({
             int q[2];
             pipe(q);
             CHILD({
                 sigset_t s;
                 siginfo_t i;
                 sigemptyset(&s), sigaddset(&s, SIGUSR2), sigprocmask(SIG_BLOCK, &s, NULL),
                     prctl(PR_SET_PDEATHSIG, SIGUSR2);
                 write(q[1], "", 1), sigwaitinfo(&s, &i);
                 write(p[1], text, sprintf(text, "orphan got %s", signal_name(i.si_signo)));
             });
             read(q[0], text, 1);
         }));
    close(p[1]), read(p[0], text, 99), say("%s", text);
    return 0;
}
