// poll and O_NONBLOCK on a terminal, VMIN and VTIME, TIOCSTI refused or not, packet mode: termios(3).
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>
int main(int argc, char **argv) {
    int m = MUST(posix_openpt(O_RDWR | O_NOCTTY)), one = 1;
    MUST(grantpt(m)), MUST(unlockpt(m));
    int t = MUST(open(ptsname(m), O_RDWR | O_NOCTTY));
    char b[20];
    struct termios s;
    struct pollfd p = {t, POLLIN, 0};
    tcgetattr(t, &s), cfmakeraw(&s), s.c_cc[VMIN] = 3, s.c_cc[VTIME] = 0, tcsetattr(t, TCSANOW, &s);
    write(m, "xy", 2), SHOW(poll(&p, 1, 20)), write(m, "z", 1), SHOW(poll(&p, 1, 1000)), SHOW(read(t, b, 20));
    s.c_cc[VMIN] = 0, s.c_cc[VTIME] = 1, tcsetattr(t, TCSANOW, &s), SHOW(read(t, b, 20));
    fcntl(t, F_SETFL, O_NONBLOCK), s.c_cc[VMIN] = 1, tcsetattr(t, TCSANOW, &s), TRY(read(t, b, 20));
    TRY(ioctl(m, TIOCPKT, &one)), write(t, "q", 1), SHOW(read(m, b, 20)), say("%d %c", b[0], b[1]);
    int n;
    write(m, "1234", 4), poll(&p, 1, 1000), ioctl(t, FIONREAD, &n), say("waiting %d", n),
        SHOW(cfgetospeed(&s) == B38400);
    close(t), p.fd = m, poll(&p, 1, 0), say("%x", p.revents & POLLHUP), TRY(read(m, b, 20));
    return 0;
}
