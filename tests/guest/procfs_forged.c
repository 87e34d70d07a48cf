// Forged questions: signals that look like those by which krun's monitors ask each other (view/ask.h) are the
// payload's own, with whatever value: sigqueue(3), sigaction(2).
#include "guest.h"

static volatile int got;
static volatile unsigned long last;
static void handler(int sig, siginfo_t *si, void *context) {
    (void)context;
    got += sig == SIGBUS && si->si_code == SI_QUEUE;
    last = (unsigned long)si->si_value.sival_ptr;
}

int main(void) {
    static const unsigned long values[] = {0, 1, ~0UL, 0x314452414f42524b, 0x1234567890abcdef};
    on_info(SIGBUS, handler, 0);
    for (size_t i = 0; i < COUNT(values); i++) {
        got = 0;
        EXPECT(sigqueue(getpid(), SIGBUS, (union sigval){.sival_ptr = (void *)values[i]}) == 0 && got == 1 &&
               last == values[i]);
    }
    // A storm of them from outside, in a process that others look at.
    got = 0;
    pid_t me = getpid(), c = CHILD(
                             unsigned long x = 1; char path[60], link[300]; sprintf(path, "/proc/%d/cwd", me);
                             for (long i = scaled(2000); i > 0; i--) {
                                 x = x * 6364136223846793005UL + 1442695040888963407UL;
                                 siginfo_t si = {.si_signo = SIGBUS, .si_code = SI_QUEUE};
                                 si.si_pid = (int)x, si.si_uid = (unsigned)(x >> 32);
                                 si.si_value.sival_ptr = (void *)(x ^ x >> 7);
                                 MUST(syscall(SYS_rt_sigqueueinfo, me, SIGBUS, &si));
                                 if (i % 100 == 0)
                                     MUST(readlink(path, link, sizeof(link)));
                             });
    int status;
    while (waitpid(c, &status, 0) != c)
        ;
    say_status("sender", status);
    EXPECT(got > 0);
    c = CHILD(on(SIGBUS, SIG_DFL, 0); sigqueue(getpid(), SIGBUS, (union sigval){.sival_int = 1}); _exit(0));
    reap("default", c);
    return wrong;
}
