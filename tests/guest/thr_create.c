// pthread_create and pthread_join 1..64 times, with results; tids are real: pthread_create(3).
// krun: all
#include "guest.h"
static pid_t tids[64];
static void *run(void *a) {
    long i = (long)a;
    tids[i] = syscall(SYS_gettid);
    return (void *)(i * i);
}
int main(int argc, char **argv) {
    EXPECT(syscall(SYS_gettid) == getpid());
    long sum = 0;
    for (long i = 0; i < 64; i++)
        sum += (long)join(thread(run, (void *)i));
    say("sum %ld", sum);
    int odd = 0;
    for (int i = 0; i < 64; i++)
        odd += tids[i] <= 0 || tids[i] == getpid();
    say("odd tids %d", odd);
    return wrong;
}
