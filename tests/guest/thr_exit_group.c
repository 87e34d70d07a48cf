// exit_group from a thread ends all threads, blocked and spinning ones too, with its status: exit_group(2).
// krun: static musl
#include "guest.h"
static void *blocked(void *a) {
    for (;;)
        pause();
}
static void *spinning(void *a) {
    for (;;)
        ;
}
static void *ender(void *a) {
    pause_ms(20);
    exit((long)a);
}
int main(int argc, char **argv) {
    for (long i = 0; i < 5; i++) {
        pid_t p = CHILD({
            thread(blocked, NULL), thread(spinning, NULL);
            thread(ender, (void *)(20 + i));
            if (i & 1)
                spinning(NULL);
            blocked(NULL);
        });
        reap("exit in a thread", p);
    }
    pid_t p = CHILD({
        thread(spinning, NULL), thread(blocked, NULL);
        pause_ms(10);
        abort();
    });
    reap("abort", p);
    return 0;
}
