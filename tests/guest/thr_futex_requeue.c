// FUTEX_CMP_REQUEUE moves waiters to another word; FUTEX_WAKE_OP changes one and wakes both: futex(2).
#include "guest.h"
#include <limits.h>
#include <linux/futex.h>
static uint32_t one, two;
static void *wait_one(void *a) { return (void *)syscall(SYS_futex, &one, FUTEX_WAIT, 0, NULL, NULL, 0); }
int main(int argc, char **argv) {
    pthread_t t[5];
    for (int i = 0; i < 5; i++)
        t[i] = thread(wait_one, NULL);
    // Moved to where they are: how many wait.
    while (syscall(SYS_futex, &one, FUTEX_CMP_REQUEUE, 0, INT_MAX, &one, 0) != 5)
        pause_ms(1);
    SHOW(syscall(SYS_futex, &one, FUTEX_CMP_REQUEUE, 1, 10, &two, 99));
    SHOW(syscall(SYS_futex, &one, FUTEX_CMP_REQUEUE, 1, 10, &two, 0));
    SHOW(syscall(SYS_futex, &one, FUTEX_WAKE, 10, NULL, NULL, 0));
    SHOW(syscall(SYS_futex, &two, FUTEX_WAKE, 2, NULL, NULL, 0));
    SHOW(syscall(SYS_futex, &one, FUTEX_WAKE_OP, 1, 10, &two, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)));
    say("second word %u", two);
    for (int i = 0; i < 5; i++)
        join(t[i]);
    return 0;
}
