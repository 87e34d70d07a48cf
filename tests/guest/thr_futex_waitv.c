// futex_waitv(2) waits for any of several words and tells which.
#include "guest.h"
static uint32_t words[3];
struct waitv {
    uint64_t val, uaddr;
    uint32_t flags, reserved;
};
static void *wake(void *a) {
    for (int i = 0; i < 400; i++) {
        pause_ms(5);
        if (syscall(SYS_futex, &words[2], 1 | 128, 1, NULL, NULL, 0) == 1)
            break;
    }
    return NULL;
}
int main(int argc, char **argv) {
    struct waitv v[3];
    for (int i = 0; i < 3; i++)
        v[i] = (struct waitv){0, (uintptr_t)&words[i], 2 | 128, 0};
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    pthread_t p = thread(wake, NULL);
    t.tv_sec += 10;
    SHOW(syscall(449, v, 3, 0, &t, CLOCK_MONOTONIC));
    join(p);
    t.tv_sec -= 20;
    TRY(syscall(449, v, 3, 0, &t, CLOCK_MONOTONIC));
    words[1] = 1;
    TRY(syscall(449, v, 3, 0, &t, CLOCK_MONOTONIC));
    TRY(syscall(449, v, 0, 0, NULL, 0));
    v[0].uaddr = 8, words[1] = 0;
    TRY(syscall(449, v, 3, 0, &t, CLOCK_MONOTONIC));
    return 0;
}
