// All 256 exit codes arrive, larger values are cut to eight bits: exit(3).
#include "guest.h"
int main(int argc, char **argv) {
    int bad = 0, s;
    for (int i = 0; i<264; i += i> 8 && i < 250 ? 11 : 1) {
        pid_t c = CHILD(_exit(i));
        waitpid(c, &s, 0);
        bad += !WIFEXITED(s) || WEXITSTATUS(s) != (i & 255);
    }
    say("wrong %d", bad);
    reap("-1", CHILD(exit(-1)));
    reap("0x1234", CHILD(syscall(SYS_exit, 0x1234)));
    return 0;
}
