// Four threads allocate and free at random; contents stay intact: malloc(3).
// krun: static musl timeout=40
#include "guest.h"
static void *run(void *a) {
    unsigned seed = (uintptr_t)a, *slot[64] = {0};
    size_t size[64] = {0}, bad = 0;
    long n = scaled(20000);
    for (long i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        int k = seed >> 16 & 63;
        if (slot[k])
            bad += slot[k][0] != (unsigned)k || slot[k][size[k] - 1] != (unsigned)k;
        free(slot[k]);
        size[k] = 1 + (seed >> 8) % (i % 100 ? 500 : 100000);
        slot[k] = malloc(size[k] * 4);
        slot[k][0] = slot[k][size[k] - 1] = k;
    }
    for (int k = 0; k < 64; k++)
        free(slot[k]);
    return (void *)bad;
}
int main(int argc, char **argv) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        t[i] = thread(run, (void *)(i + 1L));
    for (int i = 0; i < 4; i++)
        say("wrong %ld", (long)join(t[i]));
    return 0;
}
