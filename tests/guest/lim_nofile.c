// RLIMIT_NOFILE: EMFILE at the limit for all ways to get a descriptor; 0 and lower limits: getrlimit(2).
#include "guest.h"
#include <sys/epoll.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct rlimit r = {20, 20}, old;
    int n = 0, p[2];
    MUST(getrlimit(RLIMIT_NOFILE, &old)), r.rlim_max = old.rlim_max;
    TRY(setrlimit(RLIMIT_NOFILE, &r));
    while (open("/dev/null", O_RDONLY) >= 0)
        n++;
    say("opened %d, %s", n, errno_name(errno));
    TRY(dup(0)), TRY(pipe(p)), TRY(socket(AF_UNIX, SOCK_STREAM, 0)), TRY(epoll_create1(0)),
        TRY(memfd_create("x", 0)), TRY(dup2(0, 20)), TRY(dup2(0, 19)), TRY(fcntl(0, F_DUPFD, 20));
    close(10), TRY(pipe(p)), SHOW(dup(0));
    r.rlim_cur = 5, TRY(setrlimit(RLIMIT_NOFILE, &r)), TRY(dup(0)), TRY(write(15, "x", 0));
    r.rlim_cur = 3000, TRY(setrlimit(RLIMIT_NOFILE, &r)), SHOW(dup2(0, 2999));
    r.rlim_cur = 10, r.rlim_max = 5, TRY(setrlimit(RLIMIT_NOFILE, &r));
    struct pollfd f[12];
    memset(f, 0xff, sizeof(f));
    r.rlim_cur = 10, r.rlim_max = old.rlim_max, setrlimit(RLIMIT_NOFILE, &r), TRY(poll(f, 12, 0));
    return 0;
}
