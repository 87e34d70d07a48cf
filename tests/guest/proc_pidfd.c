// pidfd_open, pidfd_send_signal, poll and waitid on a pidfd, pidfd_getfd: pidfd_open(2).
#include "guest.h"
#ifndef P_PIDFD
#define P_PIDFD 3
#endif
int main(int argc, char **argv) {
    pid_t c = CHILD(pause());
    int fd = MUST(syscall(SYS_pidfd_open, c, 0));
    EXPECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    struct pollfd p = {fd, POLLIN, 0};
    SHOW(poll(&p, 1, 0));
    TRY(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    TRY(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    SHOW(poll(&p, 1, -1));
    siginfo_t i;
    TRY(waitid(P_PIDFD, fd, &i, WEXITED));
    EXPECT(i.si_pid == c);
    say("%s", signal_name(i.si_status));
    TRY(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    TRY(syscall(SYS_pidfd_open, c, 0));
    TRY(syscall(SYS_pidfd_open, getpid(), 0x10000000));
    return wrong;
}
