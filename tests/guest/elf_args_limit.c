// The largest arguments that execve(2) takes, for several limits of the stack: to the byte.
#include "guest.h"
static char *text[64];
static int fits(const char *self, size_t total) {
    char *argv[70] = {"p", "end"}, *env[] = {NULL};
    int n = 2;
    for (; total > 1; n++) {
        size_t len = total > 100000 ? 100000 : total;
        total -= len;
        argv[n] = text[n - 2] + 100000 - (len - 1); // with its final zero
    }
    pid_t p = vfork();
    if (!p) {
        execve(self, argv, env);
        _exit(errno == E2BIG ? 9 : 8);
    }
    int status = 0;
    waitpid(p, &status, 0);
    return WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status) == 9 ? 0 : -1;
}
int main(int argc, char **argv) {
    if (argc > 1)
        return 0;
    for (int i = 0; i < 64; i++)
        text[i] = malloc(100001), memset(text[i], 'x', 100000), text[i][100000] = 0;
    long limits[] = {8 << 20, 1 << 20, 100 << 10, 2000000};
    for (int i = 0; i < 4; i++) {
        struct rlimit r;
        getrlimit(RLIMIT_STACK, &r);
        r.rlim_cur = limits[i];
        MUST(setrlimit(RLIMIT_STACK, &r));
        size_t low = 1000, high = 6000000;
        int n = 0;
        while (high - low > 1 && n >= 0) {
            size_t mid = (low + high) / 2;
            n = fits(argv[0], mid);
            *(n ? &low : &high) = mid;
        }
        // each string costs its pointer, too
        say("stack limit %ld: %zu bytes and the name, last %d", limits[i], low + strlen(argv[0]), n >= 0);
    }
    return wrong;
}
