// pthread_atfork handlers run in order; a fork in a threaded process has one thread: pthread_atfork(3).
#include "guest.h"
static char order[200];
static void a(void) { strcat(order, "prepare 1, "); }
static void b(void) { strcat(order, "parent 1, "); }
static void c(void) { strcat(order, "child 1, "); }
static void d(void) { strcat(order, "prepare 2, "); }
static void e(void) { strcat(order, "child 2, "); }
static void *idle(void *x) {
    for (;;)
        pause();
}
int main(int argc, char **argv) {
    pthread_atfork(a, b, c), pthread_atfork(d, NULL, e);
    thread(idle, NULL), thread(idle, NULL);
    fflush(NULL);
    int p[2];
    MUST(pipe(p));
    pid_t pid = CHILD({
        char x, *s = MUSTP(slurp("/proc/self/status"));
        read(p[0], &x, 1);
        say("%s", order);
        say("child: %.10s", strstr(s, "Threads:"));
    });
    write(p[1], "", 1);
    reap("child", pid);
    say("%s", order);
    return 0;
}
