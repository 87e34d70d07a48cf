// A program that closes every descriptor it can name goes on working: close_range(2), getrlimit(2).
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    for (int fd = 3; fd < 70000; fd++)
        close(fd);
    syscall(436, 3, ~0U, 0);
    int fd = file_with("f", "abc");
    SHOW(fd);
    char *p = pages(10);
    p[0] = 1;
    reap("child", CHILD(say("child %d", p[0])));
    TRY(dup2(fd, r.rlim_cur - 1));
    TRY(dup2(fd, r.rlim_cur));
    char *s = slurp("f");
    say("%s", s);
    return 0;
}
