// Futex ping-pong between two threads and between two processes, with time-outs thrown in: futex(2).
// krun: timeout=60
#include "guest.h"
#include <linux/futex.h>
static void play(uint32_t *w, uint32_t mine, int rounds, int private) {
    for (int i = 0; i < rounds; i++) {
        struct timespec t = {5, i % 3 ? 0 : 1};
        while (__atomic_load_n(w, __ATOMIC_ACQUIRE) != mine)
            syscall(SYS_futex, w, FUTEX_WAIT | private, !mine, i % 7 ? NULL : &t, NULL, 0);
        __atomic_store_n(w, !mine, __ATOMIC_RELEASE);
        syscall(SYS_futex, w, FUTEX_WAKE | private, 1, NULL, NULL, 0);
    }
}
static uint32_t word;
static int rounds;
static void *run(void *a) {
    play(&word, 1, rounds, FUTEX_PRIVATE_FLAG);
    return NULL;
}
int main(int argc, char **argv) {
    rounds = scaled(4000);
    pthread_t t = thread(run, NULL);
    play(&word, 0, rounds, FUTEX_PRIVATE_FLAG), join(t);
    say("threads: %u", word);
    uint32_t *shared = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t c = CHILD(play(shared, 1, rounds, 0));
    play(shared, 0, rounds, 0), reap("child", c);
    say("processes: %u", *shared);
    return 0;
}
