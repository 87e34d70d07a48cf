// Threads map, use, protect and unmap memory while others read and write theirs; contents never mix: mmap(2).
// krun: timeout=60
#include "guest.h"
static volatile int stop;
static void *mapper(void *a) {
    long bad = 0, n = scaled(1500);
    unsigned seed = (long)a;
    for (int i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = (1 + (seed >> 16) % 30) * PAGE;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t k = 0; k < size; k += PAGE)
            bad += p[k] != 0, p[k] = (char)(long)a;
        mprotect(p, size, PROT_READ);
        if (i % 3 == 0)
            sched_yield();
        for (size_t k = 0; k < size; k += PAGE)
            bad += p[k] != (char)(long)a;
        mprotect(p, size, PROT_READ | PROT_WRITE), p[size - 1] = 1;
        if (i % 5 == 0)
            bad += madvise(p, size, MADV_DONTNEED) != 0 || p[0] != 0;
        bad += munmap(p, size) != 0;
    }
    return (void *)bad;
}
static void *worker(void *a) {
    long bad = 0;
    char *p = pages(64);
    for (unsigned i = 0; !stop; i++) {
        p[i % 64 * PAGE + (i & 4095)] = i;
        bad += p[i % 64 * PAGE + (i & 4095)] != (char)i;
    }
    return (void *)bad;
}
int main(int argc, char **argv) {
    pthread_t m[3], w = thread(worker, NULL);
    for (long i = 0; i < 3; i++)
        m[i] = thread(mapper, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        say("wrong %ld", (long)join(m[i]));
    stop = 1, say("wrong %ld", (long)join(w));
    return 0;
}
