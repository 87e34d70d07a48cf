// waitpid(2) and waitid(2): WNOHANG, WUNTRACED, WCONTINUED, WNOWAIT, process groups, errors.
#include "guest.h"
int main(int argc, char **argv) {
    int s;
    pid_t c = CHILD(pause());
    say("WNOHANG on a running child %d", waitpid(c, &s, WNOHANG));
    kill(c, SIGSTOP);
    EXPECT(waitpid(c, &s, WUNTRACED) == c), say_status("stop", s);
    kill(c, SIGCONT);
    EXPECT(waitpid(c, &s, WCONTINUED) == c), say_status("continue", s);
    kill(c, SIGTERM);
    siginfo_t i = {0};
    TRY(waitid(P_PID, c, &i, WEXITED | WNOWAIT));
    EXPECT(i.si_pid == c && i.si_uid == getuid() && i.si_signo == SIGCHLD);
    say("%s %s", code_name(SIGCHLD, i.si_code), signal_name(i.si_status));
    EXPECT(waitpid(-1, &s, 0) == c), say_status("end", s);
    TRY(waitid(P_PID, c, &i, WEXITED));
    TRY(waitpid(-1, &s, 0));
    TRY(waitpid(c, &s, 0x1000000));
    TRY(waitid(P_PID, c, &i, 0));
    c = CHILD(setpgid(0, 0); _exit(8));
    setpgid(c, c);
    EXPECT(waitpid(0, &s, 0) == -1 && errno == ECHILD);
    EXPECT(waitpid(-c, &s, 0) == c), say_status("group", s);
    memset(&i, 1, sizeof(i));
    c = CHILD(pause());
    TRY(waitid(P_ALL, 0, &i, WEXITED | WNOHANG));
    say("nothing: pid %d", i.si_pid);
    kill(c, SIGKILL), reap("killed", c);
    return wrong;
}
