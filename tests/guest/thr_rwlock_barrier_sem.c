// Read-write locks, barriers, spin locks and semaphores among threads: pthread_rwlock_rdlock(3), sem_wait(3).
// krun: static musl
#include "guest.h"
#include <semaphore.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t sem;
static long value, spun, serial, torn;
static volatile long pair[2];
static void *run(void *a) {
    for (int i = 0; i < 3000; i++) {
        if (i % 10 == (long)a) {
            pthread_rwlock_wrlock(&lock);
            pair[0]++, value++, pair[1]++;
        } else {
            pthread_rwlock_rdlock(&lock);
            if (pair[0] != pair[1])
                __atomic_add_fetch(&torn, 1, __ATOMIC_RELAXED);
        }
        pthread_rwlock_unlock(&lock);
        pthread_spin_lock(&spin), spun++, pthread_spin_unlock(&spin);
    }
    sem_post(&sem);
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t t[4];
    pthread_barrier_init(&barrier, NULL, 4), sem_init(&sem, 0, 0), pthread_spin_init(&spin, 0);
    for (long i = 0; i < 4; i++)
        t[i] = thread(run, (void *)i);
    for (int i = 0; i < 4; i++)
        sem_wait(&sem);
    for (int i = 0; i < 4; i++)
        join(t[i]);
    TRY(sem_trywait(&sem));
    say("value %ld, spun %ld, serial %ld, torn %ld", value, spun, serial, torn);
    return 0;
}
