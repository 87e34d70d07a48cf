// POSIX timers: signal with value and overrun, to a thread, none; settime, gettime, delete: timer_create(2).
// krun: static
#include "guest.h"
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
static volatile int hits, value, code;
static volatile pid_t where;
static void h(int s, siginfo_t *i, void *c) {
    value = i->si_value.sival_int, code = i->si_code, where = syscall(SYS_gettid);
    hits++; // last: the other thread looks at the rest when it sees this
}
static volatile int stop;
static volatile pid_t tid;
static void *run(void *a) {
    tid = syscall(SYS_gettid);
    while (!stop)
        pause_ms(1);
    return NULL;
}
int main(int argc, char **argv) {
    timer_t t;
    struct itimerspec every = {{0, 3000000}, {0, 3000000}}, once = {{0, 0}, {0, 5000000}}, now, off = {0};
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 33};
    on_info(SIGRTMIN, h, SA_RESTART);
    MUST(timer_create(CLOCK_MONOTONIC, &e, &t));
    MUST(timer_settime(t, 0, &every, NULL));
    while (hits < 5)
        pause();
    say("value %d, code %s", value, code_name(0, code));
    MUST(timer_gettime(t, &now));
    EXPECT(now.it_interval.tv_nsec == 3000000);
    EXPECT(timer_getoverrun(t) >= 0);
    MUST(timer_settime(t, 0, &off, NULL));
    TRY(timer_delete(t));
    TRY(timer_delete(t));
    pthread_t p = thread(run, NULL);
    while (!tid)
        sched_yield();
    e.sigev_notify = SIGEV_THREAD_ID, e.sigev_notify_thread_id = tid, e.sigev_value.sival_int = 44;
    MUST(timer_create(CLOCK_REALTIME, &e, &t));
    hits = 0;
    MUST(timer_settime(t, 0, &once, NULL));
    while (!hits)
        pause_ms(1);
    EXPECT(where == tid && value == 44);
    stop = 1, join(p);
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    MUST(timer_create(CLOCK_MONOTONIC, &none, &t));
    TRY(timer_settime(t, 0, &once, NULL));
    pause_ms(10);
    MUST(timer_gettime(t, &now));
    say("expired %d", now.it_value.tv_nsec == 0);
    e.sigev_notify_thread_id = 99999999;
    TRY(timer_create(CLOCK_MONOTONIC, &e, &t));
    TRY(timer_create(77, NULL, &t));
    return wrong;
}
