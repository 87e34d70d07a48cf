// futex(2): wait and wake, wrong values, timeouts (relative and absolute), bitsets, bad addresses.
// krun: static
#include "guest.h"
#include <limits.h>
#include <linux/futex.h>
static uint32_t word;
#define FUTEX(op, ...) syscall(SYS_futex, &word, op, __VA_ARGS__)
static void *wait5(void *bits) {
    return (void *)FUTEX(FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(long)bits);
}
int main(int argc, char **argv) {
    struct timespec t = {0, 30000000}, bad = {0, -1}, past = {1, 0};
    TRY(FUTEX(FUTEX_WAIT, 1, NULL));
    long long before = now_ns(CLOCK_MONOTONIC);
    TRY(FUTEX(FUTEX_WAIT_PRIVATE, 0, &t));
    EXPECT(now_ns(CLOCK_MONOTONIC) - before >= 30000000);
    TRY(FUTEX(FUTEX_WAIT, 0, &bad));
    TRY(FUTEX(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &past, NULL, ~0));
    TRY(FUTEX(FUTEX_WAIT_BITSET, 0, &past, NULL, 0));
    SHOW(FUTEX(FUTEX_WAKE, 10));
    pthread_t a = thread(wait5, (void *)1L), b = thread(wait5, (void *)2L);
    // Moved to where they are: how many wait.
    while (FUTEX(FUTEX_CMP_REQUEUE_PRIVATE, 0, INT_MAX, &word, 0) != 2)
        pause_ms(1);
    SHOW(FUTEX(FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 4));
    SHOW(FUTEX(FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2));
    say("joined %ld", (long)join(b));
    SHOW(FUTEX(FUTEX_WAKE_PRIVATE, 10));
    say("joined %ld", (long)join(a));
    TRY(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT, 0, NULL));
    TRY(syscall(SYS_futex, NULL, FUTEX_WAIT, 0, NULL));
    TRY(syscall(SYS_futex, 0xffff800000000000, FUTEX_WAIT, 0, NULL));
    TRY(FUTEX(77, 0, NULL));
    return wrong;
}
