// Descriptors and their offset are shared by parent and child: fork(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "abcdefghij");
    char one[4] = "", two[4] = "";
    MUST(lseek(fd, 0, SEEK_SET));
    read(fd, one, 3);
    reap("child", CHILD({
             read(fd, two, 3);
             say("child %s", two);
             fcntl(fd, F_SETFL, O_APPEND);
             close(fd);
         }));
    read(fd, two, 3);
    say("parent %s %s, append %d", one, two, !!(fcntl(fd, F_GETFL) & O_APPEND));
    return 0;
}
