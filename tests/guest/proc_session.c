// Sessions and process groups: setsid, setpgid, getsid, their errors: setsid(2), setpgid(2).
#include "guest.h"
int main(int argc, char **argv) {
    reap("child", CHILD({
             EXPECT(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
             TRY(setsid());
             TRY(setpgid(0, 0)); // a session leader
             pid_t c = CHILD(pause());
             TRY(setpgid(c, c));
             EXPECT(getpgid(c) == c && getsid(c) == getpid());
             TRY(setpgid(c, 1));
             TRY(kill(-c, SIGTERM));
             reap("group of its own", c);
             TRY(setpgid(c, c));
             TRY(getpgid(c));
             TRY(open("/dev/tty", O_RDWR));
         }));
    TRY(setpgid(0, -1));
    TRY(getsid(99999999));
    return wrong;
}
