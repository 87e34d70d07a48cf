// ioctl(2) on files, pipes and terminals that are none: FIONREAD, FIONBIO, FIOCLEX, TCGETS, nonsense.
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>
int main(int argc, char **argv) {
    int fd = file_with("f", "0123456789"), n = -1, p[2], one = 1;
    struct termios t;
    struct winsize w;
    lseek(fd, 3, SEEK_SET);
    TRY(ioctl(fd, FIONREAD, &n)), say("%d", n);
    MUST(pipe(p));
    TRY(ioctl(p[0], FIONBIO, &one)), SHOW(!!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
    TRY(ioctl(p[0], FIOCLEX)), SHOW(fcntl(p[0], F_GETFD)), TRY(ioctl(p[0], FIONCLEX)),
        SHOW(fcntl(p[0], F_GETFD));
    TRY(ioctl(p[0], TCGETS, &t)), TRY(ioctl(fd, TIOCGWINSZ, &w)), TRY(ioctl(0, TCGETS, &t));
    TRY(ioctl(p[0], 0x12345678, &n)), TRY(ioctl(99, FIONREAD, &n)), TRY(ioctl(p[0], FIONREAD, 8));
    TRY(isatty(1) ? 0 : -1);
    return 0;
}
