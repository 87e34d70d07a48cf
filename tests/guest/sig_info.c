// siginfo of kill, raise, sigqueue, tgkill and a queued value: sigaction(2).
// krun: static musl
#include "guest.h"
static siginfo_t seen;
static void h(int s, siginfo_t *i, void *c) { seen = *i; }
static void tell(const char *what) {
    say("%s: %s %s, sender self %d, uid right %d, value %d", what, signal_name(seen.si_signo),
        code_name(seen.si_signo, seen.si_code), seen.si_pid == getpid(), seen.si_uid == getuid(),
        seen.si_code == SI_QUEUE ? seen.si_value.sival_int : 0);
}
int main(int argc, char **argv) {
    on_info(SIGUSR1, h, 0), on_info(SIGRTMIN + 1, h, 0);
    kill(getpid(), SIGUSR1), tell("kill");
    raise(SIGUSR1), tell("raise");
    syscall(SYS_tkill, getpid(), SIGUSR1), tell("tkill");
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 4711}), tell("sigqueue");
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = -5}), tell("real-time");
    pid_t me = getpid(), c = CHILD(kill(me, SIGUSR1));
    waitpid(c, NULL, 0);
    EXPECT(seen.si_pid == c && seen.si_code == SI_USER);
    siginfo_t own = {.si_signo = SIGUSR1, .si_code = -60, .si_errno = 7};
    own.si_value.sival_int = 99;
    TRY(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &own));
    say("own code %d, errno %d, value %d", seen.si_code, seen.si_errno, seen.si_value.sival_int);
    own.si_code = SI_TKILL;
    c = CHILD(TRY(syscall(SYS_rt_sigqueueinfo, me, SIGUSR1, &own))); // forging to others
    waitpid(c, NULL, 0);
    TRY(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR1, &own));
    return wrong;
}
