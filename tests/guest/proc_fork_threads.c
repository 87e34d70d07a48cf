// Threads that fork all the time while others allocate: every child works and ends: fork(2).
// krun: timeout=60
#include "guest.h"
static volatile int stop;
static void *forker(void *a) {
    long bad = 0, n = scaled(30);
    for (int i = 0; i < n; i++) {
        int s;
        pid_t c = fork();
        if (!c) {
            char *m = malloc(10000);
            memset(m, 1, 10000);
            free(m);
            _exit(i);
        }
        bad += waitpid(c, &s, 0) != c || !WIFEXITED(s) || WEXITSTATUS(s) != i;
    }
    return (void *)bad;
}
static void *allocator(void *a) {
    while (!stop)
        free(memset(malloc(20000), 2, 20000));
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t f[3], t = thread(allocator, NULL);
    for (int i = 0; i < 3; i++)
        f[i] = thread(forker, NULL);
    for (int i = 0; i < 3; i++)
        say("wrong %ld", (long)join(f[i]));
    stop = 1;
    join(t);
    return 0;
}
