// The futex calls of Linux 6.7, one operation each: futex_wait, futex_wake, futex_requeue.
#include "guest.h"
enum { FUTEX_WAKE2 = 454, FUTEX_WAIT2, FUTEX_REQUEUE2 };
enum { U32 = 2, PRIVATE = 128 };
static uint32_t word, other;
static volatile int waiting, woken;
static void *waiter(void *mask) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
        syscall(FUTEX_WAIT2, &word, 0UL, (unsigned long)mask, U32 | PRIVATE, NULL, CLOCK_MONOTONIC);
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
int main(int argc, char **argv) {
    struct timespec t = {0, 0}, bad = {0, 2000000000};
    if (SHOW(syscall(FUTEX_WAKE2, &word, ~0UL, 1, U32 | PRIVATE)) < 0)
        return 0; /* an older kernel */
    SHOW(syscall(FUTEX_WAKE2, &word, 0UL, 1, U32)), SHOW(syscall(FUTEX_WAKE2, &word, ~0UL, 1, 7)),
        SHOW(syscall(FUTEX_WAKE2, (char *)&word + 1, ~0UL, 1, U32));
    SHOW(syscall(FUTEX_WAKE2, (void *)16, ~0UL, 1, U32)),
        SHOW(syscall(FUTEX_WAKE2, (void *)-8, ~0UL, 1, U32 | PRIVATE));
    SHOW(syscall(FUTEX_WAIT2, &word, 1UL, ~0UL, U32, NULL, 0)),
        SHOW(syscall(FUTEX_WAIT2, &word, 0UL, ~0UL, U32, &t, CLOCK_MONOTONIC));
    SHOW(syscall(FUTEX_WAIT2, &word, 0UL, ~0UL, U32, &t, CLOCK_REALTIME)),
        SHOW(syscall(FUTEX_WAIT2, &word, 0UL, ~0UL, U32, &t, 77));
    SHOW(syscall(FUTEX_WAIT2, &word, 0UL, ~0UL, U32, &bad, CLOCK_MONOTONIC)),
        SHOW(syscall(FUTEX_WAIT2, &word, 0UL, ~0UL, U32, (void *)8, CLOCK_MONOTONIC));
    SHOW(syscall(FUTEX_WAIT2, &word, 0UL, 0UL, U32, NULL, 0)),
        SHOW(syscall(FUTEX_WAIT2, (void *)-4096, 0UL, ~0UL, U32, NULL, 0));
    pthread_t th[4];
    for (int i = 0; i < 4; i++)
        th[i] = thread(waiter, (void *)1);
    while (waiting < 4)
        pause_ms(1);
    word = 1;
    struct {
        uint64_t val, addr;
        uint32_t flags, reserved;
    } rq[2] = {{1, (uint64_t)&word, U32 | PRIVATE, 0}, {0, (uint64_t)&other, U32 | PRIVATE, 0}};
    SHOW(syscall(FUTEX_REQUEUE2, rq, 0, 0, 0)), SHOW(syscall(FUTEX_REQUEUE2, rq, 1, 0, 0)),
        SHOW(syscall(FUTEX_REQUEUE2, (void *)8, 0, 1, 1));
    rq[0].val = 5;
    SHOW(syscall(FUTEX_REQUEUE2, rq, 0, 1, 1));
    rq[0].val = 1, rq[1].addr = -4096ULL;
    SHOW(syscall(FUTEX_REQUEUE2, rq, 0, 1, 1));
    rq[1].addr = (uint64_t)&other;
    while (__atomic_load_n(&woken, __ATOMIC_SEQ_CST) <
           4) { // one is woken, one moved, and both queues are woken until nobody sleeps
        syscall(FUTEX_REQUEUE2, rq, 0, 1, 1);
        syscall(FUTEX_WAKE2, &other, ~0UL, 1, U32 | PRIVATE);
        pause_ms(1);
    }
    for (int i = 0; i < 4; i++)
        join(th[i]);
    SHOW(woken);
    return wrong;
}
