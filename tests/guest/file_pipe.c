// pipe2 flags, capacity, atomic writes, EAGAIN, end of file, poll states: pipe(7).
// krun: static
#include "guest.h"
#include <sys/ioctl.h>
int main(int argc, char **argv) {
    int p[2], n, total = 0;
    char block[4096] = "", c;
    TRY(pipe2(p, O_NONBLOCK | O_CLOEXEC));
    say("flags %d %d", fcntl(p[0], F_GETFD), !!(fcntl(p[1], F_GETFL) & O_NONBLOCK));
    SHOW(fcntl(p[0], F_GETPIPE_SZ));
    SHOW(fcntl(p[1], F_SETPIPE_SZ, 100000));
    SHOW(fcntl(p[1], F_SETPIPE_SZ, 4096));
    while ((n = write(p[1], block, sizeof(block))) > 0)
        total += n;
    say("filled %d, %s", total, errno_name(errno));
    ioctl(p[0], FIONREAD, &n), say("FIONREAD %d", n);
    struct pollfd f[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}};
    poll(f, 2, 0), say("poll %x %x", f[0].revents, f[1].revents);
    while (read(p[0], block, sizeof(block)) > 0)
        ;
    say("empty: %s", errno_name(errno));
    close(p[1]);
    SHOW(read(p[0], &c, 1));
    f[0].revents = 0, poll(f, 1, 0), say("poll %x", f[0].revents);
    TRY(pipe2(p, 0x1));
    if (pipe2(p, O_DIRECT) == 0) { // packet mode
        write(p[1], "one", 3), write(p[1], "second", 6);
        SHOW(read(p[0], block, 100)), SHOW(read(p[0], block, 2)), write(p[1], "x", 1),
            SHOW(read(p[0], block, 100));
    }
    return 0;
}
