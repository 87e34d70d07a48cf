// Three hundred threads at once, each with its own stack, TLS and tid: pthread_create(3).
// krun: static timeout=60
#include "guest.h"
static pthread_barrier_t all;
static __thread long mine;
static pid_t tids[300];
static void *run(void *a) {
    mine = (long)a;
    tids[mine] = syscall(SYS_gettid);
    pthread_barrier_wait(&all);
    return (void *)mine;
}
int main(int argc, char **argv) {
    pthread_t t[300];
    pthread_attr_t attr;
    pthread_attr_init(&attr), pthread_attr_setstacksize(&attr, 65536);
    pthread_barrier_init(&all, NULL, 301);
    for (long i = 0; i < 300; i++)
        MUST(pthread_create(&t[i], &attr, run, (void *)i) ? -1 : 0);
    pthread_barrier_wait(&all);
    long sum = 0, same = 0;
    for (int i = 0; i < 300; i++)
        sum += (long)join(t[i]);
    for (int i = 0; i < 300; i++)
        for (int k = 0; k < i; k++)
            same += tids[i] == tids[k];
    say("sum %ld, equal tids %ld", sum, same);
    return 0;
}
