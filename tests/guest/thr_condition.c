// Condition variables: signal, broadcast, timed wait: pthread_cond_wait(3).
// krun: static musl
#include "guest.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int turn, woken;
static void *pong(void *a) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&m);
        while (turn != 1)
            pthread_cond_wait(&c, &m);
        turn = 0;
        pthread_cond_signal(&c);
        pthread_mutex_unlock(&m);
    }
    return NULL;
}
static void *sleeper(void *a) {
    pthread_mutex_lock(&m);
    while (turn != 7)
        pthread_cond_wait(&c, &m);
    woken++;
    pthread_mutex_unlock(&m);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t t = thread(pong, NULL), s[10];
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&m);
        while (turn != 0)
            pthread_cond_wait(&c, &m);
        turn = 1;
        pthread_cond_signal(&c);
        pthread_mutex_unlock(&m);
    }
    join(t);
    for (int i = 0; i < 10; i++)
        s[i] = thread(sleeper, NULL);
    pause_ms(20);
    pthread_mutex_lock(&m), turn = 7, pthread_cond_broadcast(&c), pthread_mutex_unlock(&m);
    for (int i = 0; i < 10; i++)
        join(s[i]);
    say("woken %d", woken);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    long long before = now_ns(CLOCK_MONOTONIC);
    end.tv_nsec += 50000000, end.tv_sec += end.tv_nsec / 1000000000, end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&m);
    say("timed: %s", errno_name(pthread_cond_timedwait(&c, &m, &end)));
    EXPECT(now_ns(CLOCK_MONOTONIC) - before >= 45000000);
    return wrong;
}
