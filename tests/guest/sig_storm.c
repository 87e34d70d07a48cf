// Threads shoot real-time signals at each other; sent and received agree: tgkill(2).
// krun: timeout=60
#include "guest.h"
static long got;
static pthread_t t[4];
static pthread_barrier_t start, all;
static void h(int s) { __atomic_add_fetch(&got, 1, __ATOMIC_RELAXED); }
static void *run(void *a) {
    long me = (long)a, sent = 0, n = scaled(1500);
    pthread_barrier_wait(&start); // all of t[] is there
    for (int i = 0; i < n; i++) {
        int to = (me + 1 + i % 3) % 4;
        while (pthread_kill(t[to], SIGRTMIN + 3) == EAGAIN)
            sched_yield();
        sent++;
        free(malloc(100));
    }
    pthread_barrier_wait(&all);
    return (void *)sent;
}
int main(int argc, char **argv) {
    long sent = 0;
    on(SIGRTMIN + 3, h, SA_RESTART);
    pthread_barrier_init(&all, NULL, 4), pthread_barrier_init(&start, NULL, 5);
    for (long i = 0; i < 4; i++)
        t[i] = thread(run, (void *)i);
    pthread_barrier_wait(&start);
    for (int i = 0; i < 4; i++)
        sent += (long)join(t[i]);
    EXPECT(sent == got);
    return wrong;
}
