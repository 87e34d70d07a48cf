// The end of a session leader hangs up: SIGHUP to the foreground group, EIO on the terminal: setsid(2).
#include "guest.h"
#include <termios.h>
int main(int argc, char **argv) {
    int m = MUST(posix_openpt(O_RDWR | O_NOCTTY)), p[2];
    char buf[200] = "";
    MUST(grantpt(m)), MUST(unlockpt(m)), MUST(pipe(p));
    char *name = ptsname(m);
    reap("leader", CHILD({
             setsid();
             int t = MUST(open(name, O_RDWR)), ready[2];
             pipe(ready);
             CHILD({
                 sigset_t s;
                 siginfo_t i;
                 sigemptyset(&s), sigaddset(&s, SIGHUP), sigprocmask(SIG_BLOCK, &s, NULL);
                 write(ready[1], "", 1);
                 sigwaitinfo(&s, &i);
                 int n = sprintf(buf, "got %s; write gives ", signal_name(i.si_signo));
                 n += sprintf(buf + n, "%s", write(t, "x", 1) < 0 ? errno_name(errno) : "ok");
                 write(p[1], buf, n);
             });
             read(ready[0], buf, 1);
         }));
    close(p[1]);
    read(p[0], buf, 199);
    say("%s", buf);
    return 0;
}
