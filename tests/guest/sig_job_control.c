// Job control on a terminal: tcsetpgrp, SIGTTIN, SIGTTOU, ^C and ^Z to the foreground: termios(3).
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>
int main(int argc, char **argv) {
    int m = MUST(posix_openpt(O_RDWR | O_NOCTTY)), s;
    MUST(grantpt(m)), MUST(unlockpt(m));
    char *name = ptsname(m);
    reap("session", CHILD({
             setsid();
             int t = MUST(open(name, O_RDWR)); // becomes the controlling terminal
             EXPECT(tcgetpgrp(t) == getpid() && tcgetsid(t) == getpid());
             int go[2], done[2];
             pipe(go), pipe(done);
             pid_t c = CHILD({
                 char x;
                 setpgid(0, 0);
                 read(go[0], &x, 1);
                 read(t, &x, 1);
                 say("child read %c", x);
                 read(t, &x, 1); // the newline
                 write(done[1], "", 1);
                 for (;;)
                     pause();
             });
             setpgid(c, c), write(go[1], "", 1);
             waitpid(c, &s, WUNTRACED), say_status("background read", s);
             signal(SIGTTOU, SIG_IGN);
             TRY(tcsetpgrp(t, c));
             kill(-c, SIGCONT);
             write(m, "q\n", 2);
             char x;
             read(done[0], &x, 1);
             write(m, "\032", 1);
             waitpid(c, &s, WUNTRACED), say_status("^Z", s);
             kill(-c, SIGCONT);
             write(m, "\003", 1);
             reap("^C", c);
             TRY(tcsetpgrp(t, getpid()));
             c = CHILD({
                 setpgid(0, 0), signal(SIGTTOU, SIG_DFL);
                 struct termios o;
                 tcgetattr(t, &o), tcsetattr(t, TCSANOW, &o);
             });
             setpgid(c, c);
             waitpid(c, &s, WUNTRACED), say_status("background tcsetattr", s);
             kill(c, SIGKILL), reap("child", c);
             TRY(tcsetpgrp(t, 1));
         }));
    return wrong;
}
