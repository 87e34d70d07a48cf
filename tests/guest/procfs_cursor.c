// A listing of another process's descriptors begins anew where its number gets another file: getdents(2),
// dup(2).
#include "guest.h"
#include <grp.h>

// The names that one call gives; room for about four.
static void lists(const char *what, int fd) {
    char buf[4096], line[256];
    long n = syscall(SYS_getdents64, fd, buf, 110);
    int at = 0, names = 0;
    for (long i = 0; i < n; i += *(unsigned short *)(buf + i + 16))
        if (buf[i + 19] != '.' && names++ < 2) // "." and "..": docs/limits.md
            at += sprintf(line + at, " %s", buf + i + 19);
    say("%s:%s", what, n < 0 ? errno_name(errno) : names ? line : " none");
}

static void *idle(void *arg) {
    pause();
    return arg;
}

static void all(const char *dir) {
    int fd = MUST(open(dir, O_RDONLY | O_DIRECTORY)), other, again;
    lists("first", fd);
    other = MUST(open(dir, O_RDONLY | O_DIRECTORY));
    MUST(dup2(other, fd)), lists("dup2", fd);
    MUST(dup3(MUST(open(dir, O_RDONLY | O_DIRECTORY)), fd, O_CLOEXEC)), lists("dup3", fd);
    MUST(close(fd));
    again = MUST(open(dir, O_RDONLY | O_DIRECTORY));
    EXPECT(again == fd), lists("open", again);
    other = MUST(open(dir, O_RDONLY | O_DIRECTORY));
    MUST(syscall(SYS_close_range, again, again, 0));
    EXPECT(fcntl(other, F_DUPFD, again) == again), lists("close_range, F_DUPFD", again);
}

int main(int argc, char **argv) {
    char dir[40], c;
    int ready[2];
    if (argc == 1) { // as a user, whom the kernel does not let list the descriptors of a monitor
        int self = MUST(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        MUST(setgroups(0, NULL)), MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000));
        fexecve(self, (char *[]){argv[0], "user", NULL}, environ);
        return 99;
    }
    MUST(pipe(ready));
    pid_t p = CHILD(for (int i = 0; i < 20; i++) MUST(dup(ready[0])); MUST(write(ready[1], "r", 1)); pause());
    MUST(read(ready[0], &c, 1));
    sprintf(dir, "/proc/%d/fd", p);
    all(dir);
    thread(idle, NULL);
    all(dir);
    kill(p, SIGKILL), waitpid(p, NULL, 0);
    return wrong;
}
