// SIGCHLD's siginfo for exit, kill, stop and continue: sigaction(2).
#include "guest.h"
static siginfo_t list[10];
static volatile int n;
static void h(int s, siginfo_t *i, void *c) { list[n++ % 10] = *i; }
static void until(int count) {
    for (int i = 0; i < 5000 && n < count; i++)
        pause_ms(1);
}
int main(int argc, char **argv) {
    on_info(SIGCHLD, h, SA_RESTART);
    pid_t c = CHILD(pause());
    kill(c, SIGSTOP), until(1), kill(c, SIGCONT), until(2), kill(c, SIGTERM), until(3);
    pid_t d = CHILD(_exit(9));
    until(4);
    for (int i = 0; i < n; i++)
        say("%s status %d, pid right %d, uid right %d", code_name(SIGCHLD, list[i].si_code),
            list[i].si_status, list[i].si_pid == (i < 3 ? c : d), list[i].si_uid == getuid());
    reap("one", c), reap("two", d);
    on_info(SIGCHLD, h, SA_RESTART | SA_NOCLDSTOP), n = 0;
    c = CHILD(raise(SIGSTOP); _exit(1));
    waitpid(c, NULL, WUNTRACED), kill(c, SIGCONT), until(1);
    say("with SA_NOCLDSTOP %d: %s", n, code_name(SIGCHLD, list[0].si_code));
    reap("three", c);
    return 0;
}
