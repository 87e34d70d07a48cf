// The program runs in ring 3: at start, after calls, handlers, faults, in threads and children.
// krun: static
#include "guest.h"
static unsigned ring(void) {
    unsigned cs, ss;
    __asm__ volatile("mov %%cs,%0; mov %%ss,%1" : "=r"(cs), "=r"(ss));
    return (cs & 3) * 10 + (ss & 3);
}
static volatile unsigned in_handler;
static void h(int s) { in_handler = ring(); }
static void *run(void *a) { return (void *)(long)ring(); }
int main(int argc, char **argv) {
    char c;
    say("start %u", ring());
    for (int i = 0; i < 200; i++) {
        syscall(i % 3 ? SYS_getppid : 9999);
        if (ring() != 33)
            return say("ring %u after call", ring()), 1;
    }
    on(SIGUSR1, h, 0), raise(SIGUSR1), say("handler %u, after it %u", in_handler, ring());
    CATCH(*(volatile int *)8 = 1);
    say("after a fault %u", ring());
    CATCH(__asm__ volatile("ud2"));
    say("after ud2 %u", ring());
    CATCH(__asm__ volatile("int3"));
    say("after int3 %u", ring());
    struct itimerval t = {{0, 500}, {0, 500}};
    on(SIGALRM, h, SA_RESTART), setitimer(ITIMER_REAL, &t, NULL);
    unsigned bad = 0;
    for (volatile int i = 0; i < 3000000; i++)
        if (i % 1000 == 0)
            bad += ring() != 33;
    memset(&t, 0, sizeof(t)), setitimer(ITIMER_REAL, &t, NULL);
    say("under timer signals, wrong %u", bad);
    read(open("/dev/zero", O_RDONLY), &c, 1), pause_ms(1), say("after blocking calls %u", ring());
    say("thread %ld", (long)join(thread(run, NULL)));
    reap("child", CHILD(say("child %u", ring())));
    pid_t v = vfork();
    if (!v)
        _exit(ring());
    return reap("vfork", v), wrong;
}
