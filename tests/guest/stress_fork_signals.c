// A process forks children under a storm of timer signals and SIGCHLD; none is lost, every status arrives.
// krun: timeout=60
#include "guest.h"
static volatile int ticks, deaths, odd;
static void tick(int s) { ticks++; }
static void child(int s) {
    int status, saved = errno;
    while (waitpid(-1, &status, WNOHANG) > 0)
        deaths++, odd += !(WIFEXITED(status) && WEXITSTATUS(status) == 5) &&
                         !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    errno = saved;
}
int main(int argc, char **argv) {
    struct itimerval t = {{0, 700}, {0, 700}}, off = {0};
    int n = scaled(150);
    on(SIGALRM, tick, SA_RESTART), on(SIGCHLD, child, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    for (int i = 0; i < n; i++) {
        pid_t p = CHILD({ // interval timers are not inherited
            if (i % 3 == 0)
                pause();
            _exit(5);
        });
        if (i % 3 == 0)
            kill(p, SIGTERM);
    }
    while (deaths < n)
        pause();
    setitimer(ITIMER_REAL, &off, NULL);
    say("odd %d", odd);
    EXPECT(deaths == n && ticks > 0);
    return wrong;
}
