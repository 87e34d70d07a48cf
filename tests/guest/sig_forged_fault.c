// Signals that look like faults but were sent: SIGSEGV and SIGBUS with a positive si_code from oneself, and
// as a child's exit signal (rt_sigqueueinfo(2), clone(2)). They arrive in the handler as they were sent.
#include "guest.h"
static volatile int got, code, value;
static void handler(int sig, siginfo_t *si, void *uc) {
    got = sig, code = si->si_code, value = si->si_value.sival_int;
}
static int body(void *a) { return 3; }
int main(int argc, char **argv) {
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &sa, NULL), sigaction(SIGBUS, &sa, NULL);
    static const int codes[] = {1, 2, 3, 4, 5, 0x80};
    for (unsigned i = 0; i < COUNT(codes); i++)
        for (int k = 0; k < 2; k++) {
            siginfo_t si = {.si_signo = k ? SIGBUS : SIGSEGV, .si_code = codes[i]};
            si.si_value.sival_int = 77;
            got = 0;
            long r = syscall(SYS_rt_sigqueueinfo, getpid(), si.si_signo, &si);
            say("queued %d: %ld, got %d code %d value %d", codes[i], r, got, code, value);
        }
    char *stack = malloc(65536);
    for (int k = 0; k < 2; k++) {
        got = 0;
        pid_t c = clone(body, stack + 65536, k ? SIGBUS : SIGSEGV, NULL);
        int status = 0;
        while (waitpid(c, &status, __WALL) < 0)
            ;
        say("exit signal: got %d code %d, status %d", got, code, WEXITSTATUS(status));
    }
    char *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(read(open("/dev/zero", O_RDONLY), p, 8)); // a true fault inside a call is still EFAULT
    return 0;
}
