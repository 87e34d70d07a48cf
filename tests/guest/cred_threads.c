// setuid reaches all threads by the C library's signal 33, the raw call only its own: nptl(7).
// krun: static
#include "guest.h"
static pthread_barrier_t b;
static void *run(void *a) {
    pthread_barrier_wait(&b), pthread_barrier_wait(&b);
    return (void *)(long)geteuid();
}
int main(int argc, char **argv) {
    if (getuid())
        return say("not root"), 0;
    pthread_t t[3];
    pthread_barrier_init(&b, NULL, 4);
    for (int i = 0; i < 3; i++)
        t[i] = thread(run, NULL);
    pthread_barrier_wait(&b);
    TRY(setresuid(-1, 1000, -1));
    pthread_barrier_wait(&b);
    for (int i = 0; i < 3; i++)
        say("thread has %ld", (long)join(t[i]));
    TRY(seteuid(0));
    pthread_barrier_init(&b, NULL, 2);
    t[0] = thread(run, NULL);
    pthread_barrier_wait(&b);
    TRY(syscall(SYS_setresuid, -1, 1000, -1));
    pthread_barrier_wait(&b);
    say("thread keeps %ld", (long)join(t[0]));
    return 0;
}
