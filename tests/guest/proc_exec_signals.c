// execve resets handlers, keeps ignored signals, the mask and pending signals; the altstack goes: execve(2).
#include "guest.h"
static void h(int s) {}
int main(int argc, char **argv) {
    struct sigaction a;
    sigset_t m;
    if (argc > 1) {
        static const int look[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGCHLD};
        for (size_t i = 0; i < COUNT(look); i++) {
            sigaction(look[i], NULL, &a);
            say("%s %s", signal_name(look[i]),
                a.sa_handler == SIG_DFL   ? "default"
                : a.sa_handler == SIG_IGN ? "ignored"
                                          : "?");
        }
        sigprocmask(0, NULL, &m);
        say("blocked: HUP %d USR1 %d", sigismember(&m, SIGHUP), sigismember(&m, SIGUSR1));
        sigpending(&m);
        say("pending: HUP %d ALRM %d RT %d", sigismember(&m, SIGHUP), sigismember(&m, SIGALRM),
            sigismember(&m, SIGRTMIN + 2));
        stack_t s;
        sigaltstack(NULL, &s);
        say("altstack %s", s.ss_flags & SS_DISABLE ? "off" : "on");
        return 0;
    }
    stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
    MUST(sigaltstack(&s, NULL));
    on(SIGUSR1, h, 0), on(SIGUSR2, SIG_IGN, 0), on(SIGCHLD, h, SA_NOCLDSTOP);
    sigemptyset(&m), sigaddset(&m, SIGHUP), sigaddset(&m, SIGRTMIN + 2), sigprocmask(SIG_BLOCK, &m, NULL);
    raise(SIGHUP);
    sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 3});
    execl(argv[0], "x", "1", NULL);
    return 9;
}
