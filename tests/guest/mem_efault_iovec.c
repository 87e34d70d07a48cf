// readv and writev with bad vectors, bad elements, too many of them, overflowing lengths: readv(2).
#include "guest.h"
#include <sys/uio.h>
int main(int argc, char **argv) {
    int fd = file_with("f", "0123456789");
    char a[4], b[4], *gone = pages(1);
    munmap(gone, PAGE);
    struct iovec good[] = {{a, 4}, {b, 4}}, half[] = {{a, 4}, {gone, 4}}, bad[] = {{gone, 4}, {a, 4}},
                 huge[] = {{a, SSIZE_MAX}, {b, 10}}, negative[] = {{a, -1}}, empty[] = {{NULL, 0}, {a, 2}};
    SHOW(preadv(fd, good, 2, 0));
    SHOW(preadv(fd, half, 2, 0));
    SHOW(preadv(fd, bad, 2, 0));
    SHOW(preadv(fd, negative, 1, 0));
    SHOW(preadv(fd, empty, 2, 5));
    SHOW(preadv(fd, (void *)gone, 1, 0));
    SHOW(preadv(fd, NULL, 0, 0));
    SHOW(preadv(fd, good, -1, 0));
    SHOW(preadv(fd, good, IOV_MAX + 1, 0));
    SHOW(writev(fd, half, 2));
    SHOW(writev(fd, bad, 2));
    SHOW(pwritev(fd, good, 2, -1));
    EXPECT(readv(fd, huge, 2) >= 0 || errno == EINVAL || errno == EFAULT);
    return wrong;
}
