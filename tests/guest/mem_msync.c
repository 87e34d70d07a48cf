// msync(2) of a shared file mapping, and its errors.
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "abc");
    char *p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), c;
    p[1] = 'B';
    TRY(msync(p, PAGE, MS_SYNC));
    TRY(msync(p, PAGE, MS_ASYNC));
    TRY(msync(p, PAGE, MS_SYNC | MS_ASYNC));
    TRY(msync(p + 1, PAGE, MS_SYNC));
    TRY(msync(p, PAGE, MS_INVALIDATE));
    pread(fd, &c, 1, 1);
    say("file has %c", c);
    munmap(p, PAGE);
    TRY(msync(p, PAGE, MS_SYNC));
    return 0;
}
