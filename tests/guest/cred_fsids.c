// The ids that file access is judged by: setfsuid(2), setfsgid(2).
#include "guest.h"
#include <sys/fsuid.h>
int main(int argc, char **argv) {
    if (getuid())
        return 0;
    int fd = file_with("f", "x");
    MUST(fchmod(fd, 0600));
    SHOW(setfsuid(1000)), SHOW(setfsuid(-1)), SHOW(setfsgid(1001)), SHOW(setfsgid(-1)), SHOW(geteuid());
    SHOW(open("f", O_RDONLY)), SHOW(open("g", O_CREAT | O_RDWR, 0600));
    reap("child", CHILD(SHOW(setfsuid(-1)), SHOW(open("f", O_RDONLY))));
    SHOW(setfsuid(0)), SHOW(setfsgid(0));
    TRY(open("f", O_RDONLY)), SHOW(seteuid(5)), SHOW(setfsuid(-1));
    return wrong;
}
