// A buffer valid only at its beginning: the valid part is transferred, or EFAULT: write(2).
#include "guest.h"
int main(int argc, char **argv) {
    char *b = pages(3);
    memset(b, 'b', 2 * PAGE);
    MUST(munmap(b + 2 * PAGE, PAGE));
    int fd = file_with("f", ""), p[2];
    SHOW(write(fd, b + PAGE, 2 * PAGE)); // file: the page that is there
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(pread(fd, b + 2 * PAGE - 100, 1000, 0));
    SHOW(pread(fd, b + 2 * PAGE, 1000, 0));
    MUST(pipe(p));
    SHOW(write(p[1], b + 2 * PAGE - 10, 20));
    MUST(fcntl(p[0], F_SETFL, O_NONBLOCK));
    MUST(write(p[1], "0123456789abcdefghij", 20));
    SHOW(read(p[0], b + 2 * PAGE - 10, 20));
    int zero = MUST(open("/dev/zero", O_RDONLY));
    SHOW(read(zero, b + PAGE, 2 * PAGE));
    return 0;
}
