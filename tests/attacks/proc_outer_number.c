// A process in a pid namespace of its own has another number in the container's /proc than its getpid(2). Below that
// number it looks for what its monitor hides: descriptors, and addresses above the window.
#include "attack.h"
#include <dirent.h>

static int outer;

static long contents(const char *name, char *text, long room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", outer, name);
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? -1 : read(fd, text, (size_t)room - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n;
}

static void look(void *from) {
    char text[8192], name[64];
    if (read(*(int *)from, &outer, sizeof outer) != sizeof outer || outer == getpid())
        attack_broken("the outer number");
    for (int fd = 3; fd < 1300; fd++) {
        snprintf(name, sizeof name, "fdinfo/%d", fd);
        if (fcntl(fd, F_GETFD) < 0 && contents(name, text, sizeof text) > 0)
            attack_won("fdinfo of the monitor's descriptor %d: %.40s", fd, text);
    }
    snprintf(name, sizeof name, "/proc/%d/fd", outer);
    DIR *dir = opendir(name);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.' && fcntl(atoi(e->d_name), F_GETFD) < 0)
            attack_won("a listing shows the monitor's descriptor %s", e->d_name);
    long n = contents("auxv", text, sizeof text);
    for (long i = 0; i + 16 <= n; i += 16) {
        unsigned long word[2];
        memcpy(word, text + i, sizeof word);
        if (word[1] >= ATTACK_WINDOW_END)
            attack_won("auxv has an address of the monitor: %lx", word[1]);
    }
    contents("stat", text, sizeof text);
    char *at = strrchr(text, ')');
    for (at = at ? at + 3 : text; *at; at += strcspn(at, " "), at += *at == ' ') {
        unsigned long v = strtoul(at, NULL, 10);
        if (*at != '-' && v >= ATTACK_WINDOW_END && v != ~0UL) /* a niceness is negative */
            attack_won("stat has an address of the monitor: %lx", v);
    }
    contents("maps", text, sizeof text);
    for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        unsigned long start = strtoul(line, NULL, 16);
        if (start >= ATTACK_WINDOW_END && start < 1UL << 63) /* the page of vsyscall is everybody's */
            attack_won("maps has an address of the monitor: %lx", start);
    }
    if (contents("mem", text, 2) > 0)
        attack_won("mem of a monitor");
}

int main(void) {
    int p[2], status = 0;
    if (pipe(p) < 0)
        attack_broken("pipe");
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        attack_broken("unshare");
    pid_t pid = fork();
    if (pid == 0) {
        look(p);
        attack_lost();
    }
    if (write(p[1], &pid, sizeof pid) != sizeof pid)
        attack_broken("write");
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}
