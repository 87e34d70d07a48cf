// Removed files and directories that are still open or mapped stay usable: unlink(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "mapped text"), d;
    char *p = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0)), link[100] = "", path[40];
    close(fd), unlink("f");
    say("%s", p);
    mkdir("d", 0755), d = MUST(open("d", O_RDONLY)), rmdir("d");
    TRY(openat(d, "x", O_CREAT | O_RDWR, 0600));
    fd = file_with("g", "x"), unlink("g");
    sprintf(path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, link, 99);
    say("%s", n > 10 ? link + n - 11 : "?");
    TRY(open(path, O_RDONLY));
    return 0;
}
