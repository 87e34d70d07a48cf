// The first process of a pid namespace: a signal with the default action that a process sends does not end it
// (pid_namespaces(7)); a fault does. krun: host
#include "guest.h"

static const int sent[] = {SIGSEGV, SIGBUS, SIGTERM, SIGABRT, SIGILL};

static void survive(void) {
    EXPECT(getpid() == 1);
    for (unsigned i = 0; i < sizeof sent / sizeof *sent; i++) {
        kill(1, sent[i]);
        raise(sent[i]);
        pid_t p = CHILD(EXPECT(kill(1, sent[i]) == 0));
        reap("sender", p);
        say("signal %d: alive", sent[i]);
    }
    // Blocked, then let through: dropped when it is taken.
    sigset_t all, old, left;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    for (unsigned i = 0; i < 2; i++)
        kill(1, sent[i]);
    sigpending(&left);
    say("pending: %d %d", sigismember(&left, SIGSEGV), sigismember(&left, SIGBUS));
    sigprocmask(SIG_SETMASK, &old, NULL);
    say("alive");
    // A forced signal of the same kind ends even the first process.
    *(volatile char *)8 = 0;
    _exit(1);
}

int main(void) {
    TRY(unshare(CLONE_NEWPID));
    pid_t p = CHILD(survive());
    reap("first process", p);
    return wrong;
}
