// signalfd(2): siginfo by read, poll, non-blocking, several at once, new mask.
#include "guest.h"
#include <sys/signalfd.h>
int main(int argc, char **argv) {
    sigset_t set;
    struct signalfd_siginfo i[4];
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = MUST(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    TRY(read(fd, i, sizeof(i)));
    raise(SIGUSR1), sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 5}),
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 6});
    struct pollfd p = {fd, POLLIN, 0};
    SHOW(poll(&p, 1, 0));
    ssize_t n = read(fd, i, sizeof(i));
    say("records %zd", n / (ssize_t)sizeof(i[0]));
    for (int k = 0; k < 3; k++)
        say("%s, code %s, self %d, value %d", signal_name(i[k].ssi_signo),
            code_name(i[k].ssi_signo, i[k].ssi_code), i[k].ssi_pid == (unsigned)getpid(),
            i[k].ssi_code == SI_QUEUE ? i[k].ssi_int : 0);
    TRY(read(fd, i, 10));
    sigdelset(&set, SIGUSR1);
    EXPECT(signalfd(fd, &set, 0) == fd);
    raise(SIGUSR1);
    SHOW(poll(&p, 1, 0));
    TRY(signalfd(0, &set, 0));
    pid_t me = getpid(), c = CHILD(pause_ms(20); sigqueue(me, SIGRTMIN, (union sigval){.sival_int = 9}));
    fcntl(fd, F_SETFL, 0);
    n = read(fd, i, sizeof(i)); // blocking
    EXPECT(n == sizeof(i[0]) && i[0].ssi_pid == (unsigned)c && i[0].ssi_int == 9);
    return wrong;
}
