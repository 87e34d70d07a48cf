// sigaltstack(2), sigaction(2): a handler's frame that cannot be written gives SIGSEGV to its own handler; a
// SIGSEGV whose frame cannot be written kills.
#include "guest.h"
static void usr1(int s) { say("handler of %s ran", signal_name(s)); }
static sigjmp_buf back;
static void segv(int s, siginfo_t *info, void *context) {
    ucontext_t *u = context;
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    say("%s, code %s, address %p; SIGUSR1 blocked in it %d, before it %d", signal_name(s),
        code_name(s, info->si_code), info->si_addr, sigismember(&now, SIGUSR1),
        sigismember(&u->uc_sigmask, SIGUSR1));
    siglongjmp(back, 1);
}
int main(void) {
    char *none = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t s = {.ss_sp = none, .ss_size = 16 * PAGE};
    TRY(sigaltstack(&s, NULL));
    on(SIGUSR1, usr1, SA_ONSTACK);
    on_info(SIGSEGV, segv, 0);
    for (int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 1))
            raise(SIGUSR1);
    MUST(mprotect(none, 16 * PAGE, PROT_READ | PROT_WRITE));
    raise(SIGUSR1);
    MUST(mprotect(none, 16 * PAGE, PROT_NONE));
    pid_t p = CHILD(on_info(SIGSEGV, segv, SA_ONSTACK); raise(SIGUSR1));
    reap("SIGSEGV's handler on it, too", p);
    p = CHILD(signal(SIGSEGV, SIG_IGN); raise(SIGUSR1));
    reap("SIGSEGV ignored", p);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGSEGV);
    p = CHILD(sigprocmask(SIG_BLOCK, &blocked, NULL); raise(SIGUSR1));
    reap("SIGSEGV blocked", p);
    return wrong;
}
