// eventfd(2): counter, semaphore mode, blocking, overflow, poll.
// krun: static
#include "guest.h"
#include <sys/eventfd.h>
static int fd;
static void *run(void *a) {
    uint64_t v = 0;
    read(fd, &v, 8);
    return (void *)v;
}
int main(int argc, char **argv) {
    uint64_t v = 5, max = -2;
    fd = MUST(eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC));
    SHOW(write(fd, &v, 8)), SHOW(read(fd, &v, 8)), say("%lu", (long)v);
    TRY(read(fd, &v, 8)), TRY(read(fd, &v, 4));
    SHOW(write(fd, &max, 8)), v = 1, TRY(write(fd, &v, 8)), v = -1, TRY(write(fd, &v, 8));
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    SHOW(poll(&p, 1, 0)), say("%x", p.revents);
    int s = MUST(eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
    SHOW(read(s, &v, 8)), say("%lu", (long)v), SHOW(read(s, &v, 8)), TRY(read(s, &v, 8));
    fd = MUST(eventfd(0, 0));
    pthread_t t = thread(run, NULL);
    pause_ms(15), v = 42, write(fd, &v, 8);
    say("%ld", (long)join(t));
    TRY(eventfd(0, 77));
    return 0;
}
