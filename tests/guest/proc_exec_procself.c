// execve of /proc/self/exe and /proc/self/fd/N runs the program itself: proc(5).
#include "guest.h"
int main(int argc, char **argv) {
    if (argc > 1) {
        char link[4096] = "";
        readlink("/proc/self/exe", link, 4095);
        if (strcmp(link, argv[2]))
            return 8;
        return 3;
    }
    reap("exe", CHILD(execl("/proc/self/exe", "x", "exe", argv[0], NULL)));
    int fd = MUST(open(argv[0], O_RDONLY));
    char path[40];
    sprintf(path, "/proc/self/fd/%d", fd);
    reap("fd", CHILD(execl(path, "x", "fd", argv[0], NULL)));
    int p = MUST(open(argv[0], O_PATH | O_CLOEXEC));
    sprintf(path, "/proc/self/fd/%d", p);
    reap("path fd", CHILD(execl(path, "x", "path fd", argv[0], NULL)));
    sprintf(path, "/proc/%d/exe", getpid()); // of another process: may be refused
    int status = 0;
    waitpid(CHILD(execl(path, "x", "parent's exe", argv[0], NULL); _exit(errno == EACCES ? 3 : 9)), &status,
            0);
    say_status("parent's exe", status);
    return 0;
}
