// memfd_create(2) and file seals: fcntl(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = MUST(memfd_create("name", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    char link[64] = "", path[64];
    MUST(ftruncate(fd, 2 * PAGE));
    char *p = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    sprintf(path, "/proc/self/fd/%d", fd);
    readlink(path, link, 63);
    say("%s", link);
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)); // writable mapping exists
    munmap(p, PAGE);
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK));
    SHOW(fcntl(fd, F_GET_SEALS));
    TRY(write(fd, "x", 1));
    TRY(ftruncate(fd, PAGE));
    TRY(ftruncate(fd, 3 * PAGE));
    TRY(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd, 0));
    TRY(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    TRY(fcntl(MUST(memfd_create("b", 0)), F_ADD_SEALS, F_SEAL_GROW));
    return 0;
}
