// Process-shared mutex, condition and semaphore work across fork: pthread_mutexattr_setpshared(3).
// krun: static musl
#include "guest.h"
#include <semaphore.h>
static struct shared {
    pthread_mutex_t m;
    pthread_cond_t c;
    sem_t s;
    int count, turn;
} * x;
int main(int argc, char **argv) {
    x = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    pthread_mutexattr_init(&ma), pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED),
        pthread_mutex_init(&x->m, &ma);
    pthread_condattr_init(&ca), pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED),
        pthread_cond_init(&x->c, &ca);
    sem_init(&x->s, 1, 0);
    pid_t p[2];
    for (int k = 0; k < 2; k++)
        p[k] = CHILD({
            for (int i = 0; i < 300; i++) {
                pthread_mutex_lock(&x->m);
                while (x->turn != k)
                    pthread_cond_wait(&x->c, &x->m);
                x->count++, x->turn = !k;
                pthread_cond_broadcast(&x->c);
                pthread_mutex_unlock(&x->m);
            }
            sem_post(&x->s);
        });
    sem_wait(&x->s), sem_wait(&x->s);
    say("count %d", x->count);
    reap("one", p[0]), reap("two", p[1]);
    return 0;
}
