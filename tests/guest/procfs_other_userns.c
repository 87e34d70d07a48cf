// /proc of a process that has left the reader's user namespace: the links lead there, and the process lives
// on. krun: host
#include "guest.h"

// The descriptor 7 counts: a question about it carries its number, which is no user id.
#define NUMBER 7

static void look(pid_t pid, const char *name) {
    char path[64], own[64], text[4096], here[4096];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    snprintf(own, sizeof own, "/proc/self/%s", name);
    ssize_t n = readlink(path, text, sizeof text - 1), m = readlink(own, here, sizeof here - 1);
    say("%s: %s", name,
        n < 0                                      ? strerror(errno)
        : n == m && !memcmp(text, here, (size_t)n) ? "same"
                                                   : "other");
}

int main(void) {
    int ready[2];
    char byte;
    MUST(pipe(ready));
    MUST(dup2(0, NUMBER));
    pid_t pid = CHILD({
        int r = unshare(CLONE_NEWUSER);
        MUST(write(ready[1], "x", 1));
        if (r == 0)
            pause();
        _exit(0);
    });
    MUST(read(ready[0], &byte, 1));
    look(pid, "cwd");
    look(pid, "fd/7");
    look(pid, "ns/user");
    MUST(kill(pid, SIGTERM));
    reap("the other process", pid);
    return wrong;
}
