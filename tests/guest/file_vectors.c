// readv, writev, preadv, pwritev, preadv2 and pwritev2 with flags and offsets: readv(2).
// krun: static musl
#include "guest.h"
#include <sys/uio.h>
int main(int argc, char **argv) {
    char a[4] = "abc", b[5] = "defg", c[8] = "", d[8] = "";
    struct iovec w[] = {{a, 3}, {b, 4}}, r[] = {{c, 2}, {d, 7}};
    int fd = file_with("f", "");
    SHOW(writev(fd, w, 2));
    SHOW(pwritev(fd, w, 2, 10));
    lseek(fd, 0, SEEK_SET);
    SHOW(readv(fd, r, 2)), say("%s %s", c, d);
    memset(d, 0, 8);
    SHOW(preadv(fd, r, 2, 9)), say("%d%c %s", c[0], c[1], d);
    SHOW(syscall(SYS_preadv2, fd, r, 2, 0L, 0L, 0));
    SHOW(syscall(SYS_preadv2, fd, r, 2, -1L, 0L, 0));
    SHOW(syscall(SYS_pwritev2, fd, w, 1, 0L, 0L, 0x10)); // RWF_APPEND
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(syscall(SYS_preadv2, fd, r, 2, 0L, 0L, 0x4000));
    SHOW(pread(fd, c, 2, 3)), SHOW(pwrite(fd, c, 2, 100)), SHOW(pread(fd, c, 1, 1000));
    TRY(pread(fd, c, 1, -1));
    int p[2];
    MUST(pipe(p));
    TRY(pread(p[0], c, 1, 0));
    TRY(lseek(p[0], 0, SEEK_SET));
    TRY(lseek(fd, -5, SEEK_SET));
    TRY(lseek(fd, 0, 9));
    SHOW(lseek(fd, 1L << 40, SEEK_SET));
    SHOW(read(fd, c, 1));
    return 0;
}
