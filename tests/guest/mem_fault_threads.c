// Threads touch the same fresh pages at once; each page is there once: mmap(2).
#include "guest.h"
static volatile int *area, go;
static void *run(void *a) {
    while (!go)
        ;
    for (int i = 0; i < 2000; i++)
        __atomic_add_fetch(&area[i * 1024], 1, __ATOMIC_RELAXED);
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t t[4];
    area = pages(2000);
    for (int i = 0; i < 4; i++)
        t[i] = thread(run, NULL);
    go = 1;
    long sum = 0, bad = 0;
    for (int i = 0; i < 4; i++)
        join(t[i]);
    for (int i = 0; i < 2000; i++)
        sum += area[i * 1024], bad += area[i * 1024] != 4;
    say("sum %ld, wrong %ld", sum, bad);
    return 0;
}
