// SIGSEGV and SIGBUS over execve and fork like every signal: ignored and blocked ones stay so, a pending one
// waits, with its sender (execve(2), fork(2), signal(7)); SIG_IGN takes a pending one away (sigaction(2)).
#include "guest.h"
static const int both[] = {SIGSEGV, SIGBUS};
static pid_t parent;
static void caught(int sig, siginfo_t *info, void *context) {
    (void)context;
    say("%s: code %d, from %s", signal_name(sig), info->si_code,
        info->si_pid == parent ? "the parent" : "itself");
}

static void show(const char *what) {
    sigset_t blocked, pending;
    sigprocmask(0, NULL, &blocked), sigpending(&pending);
    for (size_t i = 0; i < COUNT(both); i++) {
        struct sigaction a;
        sigaction(both[i], NULL, &a);
        say("%s: %s %s blocked %d pending %d", what, signal_name(both[i]),
            a.sa_handler == SIG_DFL   ? "default"
            : a.sa_handler == SIG_IGN ? "ignored"
                                      : "handled",
            sigismember(&blocked, both[i]), sigismember(&pending, both[i]));
    }
}

// One program after the execve: what it finds, and what becomes of the signals.
static void after(const char *how) {
    parent = getppid();
    show(how);
    if (!strcmp(how, "ignored"))
        for (size_t i = 0; i < COUNT(both); i++)
            raise(both[i]);
    if (!strcmp(how, "pending")) {
        on_info(SIGSEGV, caught, 0), on_info(SIGBUS, caught, 0);
        sigset_t none;
        sigemptyset(&none), sigprocmask(SIG_SETMASK, &none, NULL);
    }
    say("%s: alive", how);
}

static void before(const char *program, const char *how) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT(both); i++) {
        if (!strcmp(how, "handled"))
            on_info(both[i], caught, 0);
        else if (strcmp(how, "default") != 0)
            strcmp(how, "ignored") ? (void)sigaddset(&set, both[i]) : (void)signal(both[i], SIG_IGN);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!strcmp(how, "pending")) {
        kill(getpid(), SIGSEGV), kill(getpid(), SIGBUS);
        reap("fork", CHILD(show("child")));
    }
    execl(program, program, how, NULL);
    _exit(9);
}

// A signal that comes at any moment of an execve does not end a process that ignores it, nor one that blocks
// it.
static void storm(const char *program) {
    int ends[2];
    MUST(pipe(ends));
    pid_t pid = (pid_t)MUST(fork());
    if (!pid) {
        sigset_t set;
        sigemptyset(&set), sigaddset(&set, SIGBUS), sigprocmask(SIG_BLOCK, &set, NULL);
        signal(SIGSEGV, SIG_IGN);
        MUST(write(ends[1], "x", 1)), close(ends[0]);
        execl(program, program, "storm", "9", NULL);
        _exit(9);
    }
    close(ends[1]);
    char byte;
    MUST(read(ends[0], &byte, 1));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (read(ends[0], &byte, 1) < 0) { /* until all programs have closed it */
        kill(pid, SIGSEGV), kill(pid, SIGBUS);
        usleep(100);
    }
    reap("storm", pid);
}

int main(int argc, char **argv) {
    static const char *const ways[] = {"default", "handled", "ignored", "blocked", "pending"};
    if (argc > 2) {
        char left[2] = {(char)(argv[2][0] - 1), 0};
        if (left[0] > '0')
            execl(argv[0], argv[0], "storm", left, NULL);
        show("storm");
        return 0;
    }
    if (argc > 1) {
        after(argv[1]);
        return 0;
    }
    for (size_t i = 0; i < COUNT(ways); i++)
        reap(ways[i], CHILD(before(argv[0], ways[i])));
    storm(argv[0]);
    sigset_t set;
    sigfillset(&set), sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGSEGV), signal(SIGSEGV, SIG_IGN), show("taken away");
    return wrong;
}
