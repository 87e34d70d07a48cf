// Thread-directed signals and cancellation against blocking calls at random moments; hangs if one is lost.
// krun: timeout=60
#include "guest.h"
#include <linux/futex.h>
static uint32_t word;
static int pipes[2];
static volatile int state;
static sigjmp_buf out;
static void jump(int s) { siglongjmp(out, 1); }
static void *sleeper(void *kind) {
    char c;
    if (!sigsetjmp(out, 1)) {
        state = 1;
        switch ((long)kind) {
        case 0:
            read(pipes[0], &c, 1);
            break;
        case 1:
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
            break;
        case 2:
            poll(NULL, 0, -1);
            break;
        default:
            pause_ms(1000000);
        }
        say("woke up without a signal");
    }
    return NULL;
}
static void *cancelled(void *kind) {
    char c;
    state = 1;
    for (;;)
        (long)kind ? (void)read(pipes[0], &c, 1) : pause_ms(1000000);
}
int main(int argc, char **argv) {
    int n = scaled(600);
    unsigned seed = 1;
    MUST(pipe(pipes)), on(SIGUSR1, jump, 0);
    for (int i = 0; i < n; i++) {
        state = 0;
        pthread_t t = thread(sleeper, (void *)(long)(i % 4));
        while (!state)
            ;
        for (volatile int k = 0; k < (int)(seed >> 16) % 20000; k++)
            ;
        seed = seed * 1103515245 + 12345;
        pthread_kill(t, SIGUSR1), join(t);
    }
    say("signals done");
    for (int i = 0; i < n / 2; i++) {
        state = 0;
        pthread_t t = thread(cancelled, (void *)(long)(i & 1));
        while (!state)
            ;
        for (volatile int k = 0; k < (int)(seed >> 16) % 20000; k++)
            ;
        seed = seed * 1103515245 + 12345;
        pthread_cancel(t), join(t);
    }
    say("cancellations done");
    return 0;
}
