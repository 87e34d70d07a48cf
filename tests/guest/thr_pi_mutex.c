// Priority-inheritance mutexes under contention; raw PI futex errors: futex(2).
// krun: static
#include "guest.h"
#include <linux/futex.h>
static pthread_mutex_t m;
static long counter;
static void *run(void *a) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&m);
        counter++;
        if (i % 100 == 0)
            sched_yield();
        pthread_mutex_unlock(&m);
    }
    return NULL;
}
int main(int argc, char **argv) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a), pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT),
        pthread_mutex_init(&m, &a);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        t[i] = thread(run, NULL);
    for (int i = 0; i < 4; i++)
        join(t[i]);
    say("counter %ld", counter);
    uint32_t word = 0;
    TRY(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    EXPECT((word & FUTEX_TID_MASK) == (uint32_t)syscall(SYS_gettid));
    TRY(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    TRY(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    TRY(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    return wrong;
}
