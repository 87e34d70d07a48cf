// Two thousand threads one after the other and in fours: nothing runs out: pthread_create(3).
// krun: timeout=60
#include "guest.h"
static long total;
static void *run(void *a) {
    __atomic_add_fetch(&total, (long)a, __ATOMIC_RELAXED);
    return NULL;
}
int main(int argc, char **argv) {
    long n = scaled(500);
    for (long i = 0; i < n; i++) {
        pthread_t t[4];
        for (int k = 0; k < 4; k++)
            t[k] = thread(run, (void *)1L);
        for (int k = 0; k < 4; k++)
            join(t[k]);
    }
    EXPECT(total == 4 * n);
    return wrong;
}
