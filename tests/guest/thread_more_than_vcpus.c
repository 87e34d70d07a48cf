// More threads at once than KVM gives vCPUs (1024 here): pthread_create(3). Each waits, all run, all are
// joined. krun: timeout=60
#include "guest.h"
#define N 1100
static pthread_barrier_t all;
static int sum;
static void *body(void *arg) {
    __atomic_add_fetch(&sum, 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&all);
    __atomic_add_fetch(&sum, (int)(long)arg, __ATOMIC_RELAXED);
    return arg;
}
int main(void) {
    static pthread_t t[N];
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 64 << 10);
    pthread_barrier_init(&all, NULL, N + 1);
    for (long i = 0; i < N; i++)
        if (pthread_create(&t[i], &a, body, (void *)i))
            return 1;
    pthread_barrier_wait(&all);
    long total = 0;
    for (int i = 0; i < N; i++) {
        void *r;
        pthread_join(t[i], &r);
        total += (long)r;
    }
    say("started and added %d, joined %ld", sum, total);
    return 0;
}
