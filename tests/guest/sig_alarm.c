// alarm, setitimer real, virtual and prof, their values: setitimer(2).
// krun: static
#include "guest.h"
static volatile int hits[65];
static void h(int s) { hits[s]++; }
int main(int argc, char **argv) {
    struct itimerval t = {{0, 5000}, {0, 5000}}, off = {0};
    SHOW(alarm(100));
    SHOW(alarm(0));
    on(SIGALRM, h, SA_RESTART), on(SIGVTALRM, h, SA_RESTART), on(SIGPROF, h, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    while (hits[SIGALRM] < 4)
        pause();
    MUST(setitimer(ITIMER_REAL, &off, &t));
    EXPECT(t.it_interval.tv_usec == 5000 && t.it_value.tv_usec <= 5000);
    MUST(setitimer(ITIMER_VIRTUAL, &t, NULL));
    while (hits[SIGVTALRM] < 3)
        ;
    MUST(setitimer(ITIMER_VIRTUAL, &off, NULL)), MUST(setitimer(ITIMER_PROF, &t, NULL));
    while (hits[SIGPROF] < 3)
        getppid();
    MUST(setitimer(ITIMER_PROF, &off, NULL));
    t.it_value.tv_usec = 2000000;
    TRY(setitimer(ITIMER_REAL, &t, NULL));
    TRY(setitimer(7, &off, NULL));
    TRY(getitimer(ITIMER_REAL, (void *)8));
    reap("SIGALRM kills", CHILD({
             on(SIGALRM, SIG_DFL, 0);
             struct itimerval soon = {{0, 0}, {0, 10000}};
             setitimer(ITIMER_REAL, &soon, NULL);
             pause();
         }));
    return wrong;
}
