// Code changes under running threads: every thread sees each new version after the change: mprotect(2).
#include "guest.h"
static unsigned char *code;
static int version, done[3];
static void *run(void *a) {
    int *mine = a, last = 0, back = 0;
    while (last < 50) {
        int before = __atomic_load_n(&version, __ATOMIC_ACQUIRE);
        if (before == last || before & 1) { // odd: being written
            sched_yield();
            continue;
        }
        int got = ((int (*volatile)(void))code)();
        back += got != before / 2 * 2;
        last = before;
        __atomic_store_n(mine, last, __ATOMIC_RELEASE);
    }
    return (void *)(intptr_t)back;
}
int main(int argc, char **argv) {
    code = pages(1);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        t[i] = thread(run, &done[i]);
    for (int v = 2; v <= 50; v += 2) {
        __atomic_store_n(&version, v - 1, __ATOMIC_RELEASE);
        MUST(mprotect(code, PAGE, PROT_READ | PROT_WRITE));
        code[0] = 0xb8, memcpy(code + 1, &v, 4), code[5] = 0xc3;
        MUST(mprotect(code, PAGE, PROT_READ | PROT_EXEC));
        __atomic_store_n(&version, v, __ATOMIC_RELEASE);
        for (int i = 0; i < 3; i++)
            while (__atomic_load_n(&done[i], __ATOMIC_ACQUIRE) < v)
                sched_yield();
    }
    for (int i = 0; i < 3; i++)
        say("thread %d: wrong results %d", i, (int)(intptr_t)join(t[i]));
    return 0;
}
