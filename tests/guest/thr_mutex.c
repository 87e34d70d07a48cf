// Mutexes: normal, recursive, error-checking, trylock, timed, under contention: pthread_mutex_lock(3).
// krun: static musl
#include "guest.h"
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static long counter;
static void *add(void *a) {
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&plain);
        counter++;
        pthread_mutex_unlock(&plain);
    }
    return NULL;
}
static void *busy(void *m) { return (void *)(long)pthread_mutex_trylock(m); }
int main(int argc, char **argv) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        t[i] = thread(add, NULL);
    for (int i = 0; i < 4; i++)
        join(t[i]);
    say("counter %ld", counter);
    pthread_mutex_t m;
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a), pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK),
        pthread_mutex_init(&m, &a);
    pthread_mutex_lock(&m);
    say("again: %s", errno_name(pthread_mutex_lock(&m)));
    say("other thread: %s", errno_name((long)join(thread(busy, &m))));
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec = (soon.tv_nsec + 20000000) % 1000000000;
    pthread_mutex_unlock(&m);
    say("not owner: %s", errno_name(pthread_mutex_unlock(&m)));
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE), pthread_mutex_init(&m, &a);
    say("recursive %d %d", pthread_mutex_lock(&m), pthread_mutex_lock(&m));
    pthread_mutex_lock(&plain);
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec -= 1;
    say("timed: %s", errno_name(pthread_mutex_timedlock(&plain, &soon)));
    return 0;
}
