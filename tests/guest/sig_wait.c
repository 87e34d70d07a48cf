// sigwaitinfo, sigtimedwait, sigwait take pending signals with their values: sigwaitinfo(2).
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    sigset_t set;
    siginfo_t i;
    int sig;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN), sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1}),
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 2});
    raise(SIGUSR1), raise(SIGUSR1);
    EXPECT(sigwaitinfo(&set, &i) == SIGUSR1);
    say("%s", code_name(SIGUSR1, i.si_code));
    for (int k = 0; k < 2; k++) {
        EXPECT(sigwaitinfo(&set, &i) == SIGRTMIN);
        say("value %d", i.si_value.sival_int);
    }
    struct timespec zero = {0, 0}, bit = {0, 20000000}, bad = {0, 1000000000};
    TRY(sigtimedwait(&set, &i, &zero));
    TRY(sigtimedwait(&set, &i, &bit));
    TRY(sigtimedwait(&set, &i, &bad));
    pid_t c = CHILD(pause_ms(15); _exit(3));
    EXPECT(sigwaitinfo(&set, &i) == SIGCHLD && i.si_pid == c && i.si_status == 3);
    pid_t me = getpid();
    c = CHILD(pause_ms(15); kill(me, SIGUSR1));
    EXPECT(sigwait(&set, &sig) == 0 && (sig == SIGUSR1 || sig == SIGCHLD));
    waitpid(c, NULL, 0);
    return wrong;
}
