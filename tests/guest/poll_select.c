// select(2) and pselect: sets, high descriptors, remaining time, bad descriptors.
// krun: static
#include "guest.h"
#include <sys/select.h>
int main(int argc, char **argv) {
    int p[2];
    fd_set r, w;
    MUST(pipe(p)), dup2(p[0], 900), write(p[1], "x", 1);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(900, &r);
    FD_SET(p[1], &w);
    struct timeval t = {5, 0};
    SHOW(select(901, &r, &w, NULL, &t));
    say("%d %d, time left %d", !!FD_ISSET(900, &r), !!FD_ISSET(p[1], &w), t.tv_sec >= 4);
    char c;
    read(p[0], &c, 1);
    t = (struct timeval){0, 20000};
    SHOW(select(901, &r, NULL, NULL, &t)), say("set %d, left %ld", !!FD_ISSET(900, &r), (long)t.tv_usec);
    FD_SET(800, &r);
    TRY(select(901, &r, NULL, NULL, &t));
    TRY(select(-1, NULL, NULL, NULL, &t));
    struct timespec s = {0, 1000000};
    SHOW(pselect(0, NULL, NULL, NULL, &s, NULL)), say("unchanged %ld", s.tv_nsec);
    t.tv_usec = -1;
    TRY(select(0, NULL, NULL, NULL, &t));
    return 0;
}
