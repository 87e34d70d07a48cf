// Each queued real-time signal arrives once, whatever the receiver does when it comes: computing, changing
// its mask, in a call that blocks, making and waiting for children (signal(7), "Real-time signals";
// sigqueue(3)).
#include "guest.h"
enum { EACH = 1500, KINDS = 4 };
static volatile long got, sum;
static volatile int over;
static void count(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    got++, sum += info->si_value.sival_int;
}
static void end(int sig) { over = sig; }

static void busy(int kind) {
    sigset_t set, old;
    volatile double x = 1;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    switch (kind) {
    case 0: /* computing */
        for (int i = 0; i < 1000; i++)
            x *= 1.0001;
        break;
    case 1: /* changes of the mask */
        sigprocmask(SIG_BLOCK, &set, &old), sigprocmask(SIG_SETMASK, &old, NULL);
        break;
    case 2: /* calls that block */
        usleep(50);
        break;
    case 3: /* children */
        if (!fork())
            _exit(0);
        while (wait(NULL) < 0 && errno == EINTR)
            ;
        break;
    }
}

static void receive(int kind, int ready) {
    on_info(SIGRTMIN, count, SA_RESTART), on(SIGRTMIN + 1, end, 0);
    MUST(write(ready, "x", 1));
    while (!over)
        busy(kind);
    say("kind %d: %ld signals, sum %ld", kind, got, sum);
    _exit(0);
}

int main(void) {
    long each = scaled(EACH);
    for (int kind = 0; kind < KINDS; kind++) {
        int ends[2];
        char byte;
        MUST(pipe(ends));
        pid_t pid = (pid_t)MUST(fork());
        if (!pid)
            receive(kind, ends[1]);
        MUST(read(ends[0], &byte, 1));
        for (int i = 1; i <= each; i++)
            while (sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i}) < 0)
                usleep(1000); /* RLIMIT_SIGPENDING */
        MUST(kill(pid, SIGRTMIN + 1));
        int status;
        MUST(waitpid(pid, &status, 0)), say("status %d", status);
        close(ends[0]), close(ends[1]);
    }
    return wrong;
}
