// A chain of twenty generations passes a message through pipes: pipe(2), fork(2).
#include "guest.h"
static int generation(int n) {
    int p[2], got = 0;
    if (!n)
        return 1;
    MUST(pipe(p));
    pid_t c = CHILD({
        got = generation(n - 1) + 1;
        write(p[1], &got, sizeof(got));
        _exit(0);
    });
    close(p[1]);
    read(p[0], &got, sizeof(got));
    close(p[0]);
    waitpid(c, NULL, 0);
    return got;
}
int main(int argc, char **argv) { return say("generations %d", generation(20)), 0; }
