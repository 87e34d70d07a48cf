// RLIMIT_FSIZE: a write up to the limit, then SIGXFSZ, or EFBIG when ignored: getrlimit(2).
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit r = {1000, 1000};
    char b[600] = "";
    int fd = file_with("f", "");
    MUST(setrlimit(RLIMIT_FSIZE, &r));
    SHOW(write(fd, b, 600)), SHOW(write(fd, b, 600));
    reap("child", CHILD(write(fd, b, 600)));
    signal(SIGXFSZ, SIG_IGN), SHOW(write(fd, b, 600)), TRY(ftruncate(fd, 2000)),
        SHOW(pwrite(fd, b, 10, 5000));
    return 0;
}
