// A handler during getpid, read, write, lseek never changes their results: signal(7).
#include "guest.h"
static volatile int hits;
static void h(int s) {
    hits++;
    errno = 77;
    getuid();
}
int main(int argc, char **argv) {
    struct itimerval t = {{0, 300}, {0, 300}};
    int p[2], bad = 0, want = scaled(100);
    char c[8];
    MUST(pipe(p));
    on(SIGALRM, h, SA_RESTART);
    pid_t me = getpid();
    MUST(setitimer(ITIMER_REAL, &t, NULL));
    while (hits < want) {
        bad += syscall(SYS_getpid) != me;
        bad += write(p[1], "1234567", 7) != 7;
        bad += read(p[0], c, 8) != 7 || memcmp(c, "1234567", 7);
        bad += lseek(p[0], 0, SEEK_CUR) != -1;
    }
    say("wrong %d", bad);
    return 0;
}
