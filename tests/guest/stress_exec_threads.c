// Threads spawn programs at once while others map memory; all statuses are right: posix_spawn(3).
// krun: timeout=60
#include "guest.h"
#include <spawn.h>
static char *self;
static volatile int stop;
static void *spawner(void *a) {
    long bad = 0;
    int n = scaled(15), s;
    for (int i = 0; i < n; i++) {
        char code[20];
        pid_t p;
        sprintf(code, "%d", 10 + i);
        bad += posix_spawn(&p, self, NULL, NULL, (char *[]){self, code, NULL}, NULL) != 0 ||
               waitpid(p, &s, 0) != p || WEXITSTATUS(s) != 10 + i;
    }
    return (void *)bad;
}
static void *mapper(void *a) {
    while (!stop) {
        char *p = pages(20);
        p[0] = p[19 * PAGE] = 1;
        munmap(p, 20 * PAGE);
    }
    return NULL;
}
int main(int argc, char **argv) {
    if (argc > 1)
        return atoi(argv[1]);
    self = argv[0];
    pthread_t t[3], m = thread(mapper, NULL);
    for (int i = 0; i < 3; i++)
        t[i] = thread(spawner, NULL);
    for (int i = 0; i < 3; i++)
        say("wrong %ld", (long)join(t[i]));
    stop = 1, join(m);
    return 0;
}
