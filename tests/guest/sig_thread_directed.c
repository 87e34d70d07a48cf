// pthread_kill reaches its thread only, also in a futex; process signals go to who is open: tgkill(2).
#include "guest.h"
static volatile pid_t where[2];
static volatile int count;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void h(int s) { where[s == SIGUSR2] = syscall(SYS_gettid), count++; }
static volatile pid_t tid;
static void *run(void *a) {
    sigset_t none;
    sigemptyset(&none), pthread_sigmask(SIG_SETMASK, &none, NULL);
    tid = syscall(SYS_gettid);
    pthread_mutex_lock(&m); // blocked in a futex
    pthread_mutex_unlock(&m);
    return NULL;
}
int main(int argc, char **argv) {
    sigset_t all;
    sigfillset(&all), sigprocmask(SIG_SETMASK, &all, NULL);
    on(SIGUSR1, h, SA_RESTART), on(SIGUSR2, h, SA_RESTART);
    pthread_mutex_lock(&m);
    pthread_t t = thread(run, NULL);
    while (!tid)
        sched_yield();
    pause_ms(20);
    pthread_kill(t, SIGUSR1);
    while (!where[0])
        sched_yield();
    kill(getpid(), SIGUSR2);
    while (!where[1])
        sched_yield();
    EXPECT(where[0] == tid && where[1] == tid && count == 2);
    pthread_mutex_unlock(&m);
    join(t);
    sigpending(&all);
    say("pending %d", sigismember(&all, SIGUSR1) || sigismember(&all, SIGUSR2));
    return wrong;
}
