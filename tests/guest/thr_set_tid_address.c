// set_tid_address(2) returns the tid; the word is cleared and woken at the thread's end.
#include "guest.h"
#include <linux/futex.h>
static int word = 1;
static volatile int begun;
static void *run(void *where) {
    EXPECT(syscall(SYS_set_tid_address, where) == syscall(SYS_gettid));
    begun++;
    syscall(SYS_exit, 0);
    return NULL;
}
int main(int argc, char **argv) {
    thread(run, &word);
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0);
    say("cleared %d", word);
    thread(run, (void *)8);
    while (begun < 2)
        sched_yield();
    pause_ms(20);
    EXPECT(syscall(SYS_set_tid_address, &word) == getpid());
    return wrong;
}
