// Close-on-exec descriptors are gone after execve, others stay with their offsets: execve(2), fcntl(2).
#include "guest.h"
int main(int argc, char **argv) {
    if (argc > 1) {
        for (int fd = 20; fd < 26; fd++)
            say("%d %s", fd, fcntl(fd, F_GETFD) == -1 ? errno_name(errno) : "open");
        char c;
        read(20, &c, 1);
        say("next byte %c", c);
        return 0;
    }
    int fd = file_with("f", "0123"), p[2];
    lseek(fd, 2, SEEK_SET);
    dup2(fd, 20), dup3(fd, 21, O_CLOEXEC), dup2(fd, 22), fcntl(22, F_SETFD, FD_CLOEXEC);
    pipe2(p, O_CLOEXEC), fcntl(p[0], F_DUPFD, 23), fcntl(p[1], F_DUPFD_CLOEXEC, 24);
    dup3(p[0], 25, O_CLOEXEC), fcntl(25, F_SETFD, 0);
    execl(argv[0], "x", "1", NULL);
    return 9;
}
