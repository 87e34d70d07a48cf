// /proc of a child, at once after fork(2), posix_spawn's vfork(2) and the like: the child is there, and is
// the parent's like.
#include "guest.h"
#include <dirent.h>

// The line of /proc/PID/status that begins with key.
static void line_of(pid_t pid, const char *key, char *out, size_t room) {
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *at = strstr(text, key);
    snprintf(out, room, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
}

static int same_line(pid_t a, pid_t b, const char *key) {
    char one[128], other[128];
    line_of(a, key, one, sizeof one);
    line_of(b, key, other, sizeof other);
    return *one && strcmp(one, other) == 0;
}

static int numbers(pid_t pid) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.' && atoi(e->d_name) != dirfd(dir);
    if (dir)
        closedir(dir);
    return n;
}

int main(void) {
    int lines = 0, links = 0, lists = 0, own = numbers(getpid());
    for (int i = 0; i < 30; i++) {
        char path[64], text[4096];
        pid_t pid = CHILD(pause());
        snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
        if (i % 3 == 0)
            lines += same_line(pid, getpid(), "Seccomp:") && same_line(pid, getpid(), "NoNewPrivs:");
        else if (i % 3 == 1)
            links += readlink(path, text, sizeof text) > 0;
        else
            lists += numbers(pid) == own;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    say("lines %d, links %d, lists %d", lines, links, lists);
    return wrong;
}
