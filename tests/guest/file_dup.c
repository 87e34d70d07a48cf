// dup, dup2, dup3, F_DUPFD, close_range, lowest numbers, descriptor flags: dup(2), close_range(2).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "x"); // 3
    SHOW(fd);
    SHOW(dup(fd));
    SHOW(dup2(fd, 10)), SHOW(dup2(fd, fd));
    TRY(dup2(99, 5));
    TRY(dup2(fd, -1));
    TRY(dup3(fd, fd, 0));
    TRY(dup3(fd, 11, 1));
    SHOW(dup3(fd, 11, O_CLOEXEC)), SHOW(fcntl(11, F_GETFD));
    SHOW(fcntl(fd, F_DUPFD, 20)), SHOW(fcntl(fd, F_DUPFD_CLOEXEC, 20));
    TRY(fcntl(fd, F_DUPFD, -1));
    TRY(close(99));
    TRY(close(-1));
    close(3);
    SHOW(open("/dev/null", O_RDONLY)); // the lowest free one
    TRY(syscall(436, 10, 20, 4));      // CLOSE_RANGE_CLOEXEC
    SHOW(fcntl(10, F_GETFD)), SHOW(fcntl(4, F_GETFD));
    TRY(syscall(436, 10, ~0U, 0));
    TRY(fcntl(21, F_GETFD));
    TRY(fcntl(10, F_GETFD));
    TRY(syscall(436, 5, 4, 0));
    SHOW(open("/dev/null", O_RDONLY));
    say("still writing");
    return 0;
}
