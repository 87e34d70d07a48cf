// Detached threads end by themselves and give back what they had: pthread_detach(3).
#include "guest.h"
static int ended;
static void *run(void *a) {
    pthread_detach(pthread_self());
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
    return NULL;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 200; i++) {
        thread(run, NULL);
        while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < i - 20)
            sched_yield();
    }
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) < 200)
        sched_yield();
    say("ended %d", ended);
    return 0;
}
