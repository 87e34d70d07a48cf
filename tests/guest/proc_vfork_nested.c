// A vfork child that makes vfork children, and threads and processes of the parent afterwards: vfork(2).
#include "guest.h"
static volatile int deep;
static NOINLINE void grandchild(int n) {
    pid_t p = vfork();
    if (!p) {
        deep++;
        if (n > 0)
            grandchild(n - 1);
        _exit(10 + n);
    }
    int status = 0;
    while (waitpid(p, &status, 0) == -1 && errno == EINTR)
        ;
    if (p < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 10 + n)
        _exit(77);
}
static void *adds(void *a) {
    pause_ms(1);
    return a;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        pid_t p = vfork();
        if (!p) {
            grandchild(2), grandchild(0);
            _exit(5);
        }
        reap("child", p);
        long sum = 0;
        pthread_t t[12];
        for (long k = 0; k < 12; k++)
            t[k] = thread(adds, (void *)k);
        for (int k = 0; k < 12; k++)
            sum += (long)join(t[k]);
        say("threads %ld", sum);
        reap("fork", CHILD(say("forked")));
    }
    say("vforks of vforks: %d", deep);
    return 0;
}
