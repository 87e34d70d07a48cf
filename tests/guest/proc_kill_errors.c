// kill, tgkill, tkill with bad targets: kill(2).
#include "guest.h"
int main(int argc, char **argv) {
    TRY(kill(getpid(), 0));
    TRY(kill(getpid(), 65));
    TRY(kill(getpid(), -1));
    TRY(kill(99999999, SIGTERM));
    TRY(syscall(SYS_tgkill, getpid(), getpid(), 0));
    TRY(syscall(SYS_tgkill, getpid(), 99999999, SIGTERM));
    TRY(syscall(SYS_tgkill, -1, getpid(), SIGTERM));
    TRY(syscall(SYS_tkill, getpid(), 0));
    TRY(syscall(SYS_tkill, -5, SIGTERM));
    pid_t c = CHILD(_exit(0));
    siginfo_t i;
    waitid(P_PID, c, &i, WEXITED | WNOWAIT);
    TRY(kill(c, SIGTERM)); // a zombie can be signalled
    reap("zombie", c);
    TRY(kill(c, SIGTERM));
    return 0;
}
