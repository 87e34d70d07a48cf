// The mask belongs to the thread and is inherited; SIGKILL cannot be blocked: pthread_sigmask(3).
#include "guest.h"
static void *run(void *a) {
    sigset_t m;
    pthread_sigmask(0, NULL, &m);
    say("thread: USR1 %d USR2 %d", sigismember(&m, SIGUSR1), sigismember(&m, SIGUSR2));
    sigaddset(&m, SIGUSR2), pthread_sigmask(SIG_SETMASK, &m, NULL);
    return NULL;
}
int main(int argc, char **argv) {
    sigset_t m;
    sigemptyset(&m), sigaddset(&m, SIGUSR1), sigprocmask(SIG_BLOCK, &m, NULL);
    join(thread(run, NULL));
    sigprocmask(0, NULL, &m);
    say("main: USR1 %d USR2 %d", sigismember(&m, SIGUSR1), sigismember(&m, SIGUSR2));
    sigfillset(&m), sigprocmask(SIG_SETMASK, &m, NULL), sigprocmask(0, NULL, &m);
    say("KILL %d STOP %d", sigismember(&m, SIGKILL), sigismember(&m, SIGSTOP));
    TRY(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &m, NULL, 4));
    TRY(syscall(SYS_rt_sigprocmask, 9, &m, NULL, 8));
    return 0;
}
