// fork(2): two returns, new pid, parent's pid, copied state, exit status.
// krun: static musl
#include "guest.h"
int main(int argc, char **argv) {
    pid_t me = getpid();
    pid_t c = CHILD({
        EXPECT(getpid() != me && getppid() == me);
        EXPECT(syscall(SYS_gettid) == getpid());
        EXPECT(getpgrp() == getpgid(me) && getsid(0) == getsid(me));
        _exit(7);
    });
    reap("child", c);
    EXPECT(c > 0 && c != me);
    TRY(waitpid(c, NULL, 0));
    return wrong;
}
