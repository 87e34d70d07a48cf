// A process looks at another one in /proc, and the other way round: links, descriptors, texts, threads:
// proc(5).
#include "guest.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define NEED(c) must_((c) ? 0 : -1, #c)

static char dir[4096];

static const char *at(pid_t p, const char *name) {
    static char path[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[0]), "/proc/%d/%s", p, name);
    return path[turn];
}

static const char *target(const char *path) {
    static char text[4][4200];
    static int turn;
    turn = (turn + 1) % 4;
    ssize_t n = readlink(path, text[turn], sizeof(text[0]) - 1);
    if (n < 0)
        return errno_name(errno);
    text[turn][n] = 0;
    size_t d = strlen(dir);
    if (d && !strncmp(text[turn], dir, d)) // the directory has another name in each run
        return text[turn] + d;
    if (!strncmp(text[turn], "pipe:", 5) || !strncmp(text[turn], "socket:", 7))
        strcpy(strchr(text[turn], ':') + 1, "N");
    return text[turn];
}

static void names(const char *path) {
    DIR *d = opendir(path);
    char seen[64] = "", all[400] = "";
    if (!d) {
        say("list: %s", errno_name(errno));
        return;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            int n = atoi(e->d_name);
            if (n >= 0 && n < 64)
                seen[n] = 1;
            else
                wrong = 1, say("unexpected entry");
        }
    closedir(d);
    for (int i = 0; i < 64; i++)
        if (seen[i])
            sprintf(all + strlen(all), " %d", i);
    say("list:%s", all);
}

static int count(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static char *line(const char *text, const char *key) {
    static char out[4][200];
    static int turn;
    turn = (turn + 1) % 4;
    const char *p = text ? strstr(text, key) : NULL;
    if (!p)
        return strcpy(out[turn], "none");
    snprintf(out[turn], sizeof(out[0]), "%.*s", (int)strcspn(p, "\n"), p);
    return out[turn];
}

static void *idle(void *arg) {
    char c;
    (void)arg;
    (void)!read(40, &c, 1);
    return NULL;
}

static int child(int ready, int stop) {
    char c;
    NEED(mkdir("here", 0755) == 0 && chdir("here") == 0);
    NEED(dup2((int)MUST(open("file", O_RDWR | O_CREAT | O_APPEND, 0644)), 20) == 20);
    NEED(write(20, "contents", 8) == 8);
    NEED(dup2((int)MUST(open("gone", O_RDWR | O_CREAT, 0600)), 21) == 21);
    NEED(write(21, "deleted", 7) == 7 && unlink("gone") == 0);
    int p[2], s[2];
    NEED(pipe(p) == 0 && dup2(p[0], 22) == 22 && dup2(p[1], 23) == 23);
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && dup2(s[0], 24) == 24);
    NEED(dup2((int)MUST(open(".", O_RDONLY | O_DIRECTORY)), 25) == 25);
    close_range(26, 39, 0), close_range(41, ~0U, 0);
    for (int i = 3; i < 20; i++)
        if (i != ready && i != stop)
            close(i);
    int q[2];
    NEED(pipe(q) == 0 && dup2(q[0], 40) == 40);
    close(q[0]);
    for (int i = 0; i < 3; i++)
        thread(idle, NULL);
    signal(SIGBUS, SIG_IGN), signal(SIGUSR1, SIG_IGN), signal(SIGSEGV, (void (*)(int))(uintptr_t)idle);
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && write(ready, "r", 1) == 1);
    (void)!read(stop, &c, 1);
    // The other way round.
    pid_t up = getppid();
    EXPECT(!strcmp(target(at(up, "exe")), target("/proc/self/exe")));

    say("parent's fd 0: %s", target(at(up, "fd/0")));
    EXPECT(slurp(at(up, "maps")) && strstr(slurp(at(up, "maps")), "[stack]"));
    return wrong;
}

int main(int argc, char **argv) {
    if (argc == 3)
        return child(atoi(argv[1]), atoi(argv[2]));
    char path[300], *s;
    struct stat a, b;
    int ready[2], stop[2];
    NEED(getcwd(dir, sizeof(dir)) != NULL);
    NEED(pipe(ready) == 0 && pipe(stop) == 0);
    pid_t c = fork();
    if (!c) {
        char r[12], t[12];
        sprintf(r, "%d", ready[1]), sprintf(t, "%d", stop[0]);
        setenv("SEEN_BY_OTHERS", "yes", 1);
        execl(target("/proc/self/exe"), "a name", r, t, NULL);
        _exit(99);
    }
    char byte;
    NEED(read(ready[0], &byte, 1) == 1);

    // Links: read, looked at, opened, walked through.
    EXPECT(!strcmp(target(at(c, "exe")), target("/proc/self/exe")));
    EXPECT(stat(at(c, "exe"), &a) == 0 && stat("/proc/self/exe", &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev && a.st_size == b.st_size);
    say("cwd %s, root %s", target(at(c, "cwd")), target(at(c, "root")));
    EXPECT(stat(at(c, "cwd"), &a) == 0 && stat("here", &b) == 0 && a.st_ino == b.st_ino);
    EXPECT(stat(at(c, "cwd/file"), &a) == 0 && a.st_size == 8);
    EXPECT(access(at(c, "root/etc/passwd"), R_OK) == 0 && access(at(c, "cwd/none"), F_OK) < 0);
    EXPECT(!strcmp(target(at(c, "ns/uts")), target("/proc/self/ns/uts")));
    names(at(c, "fd")), names(at(c, "fdinfo"));
    static const int fds[] = {0, 20, 21, 22, 23, 24, 25, 40, 41, 63};
    for (size_t i = 0; i < COUNT(fds); i++) {
        sprintf(path, "fd/%d", fds[i]);
        int n = stat(at(c, path), &a);
        say("%s: %s %s %o", path, target(at(c, path)), n ? errno_name(errno) : "ok",
            n ? 0 : a.st_mode & 0170000);
    }
    int fd = TRY(open(at(c, "fd/20"), O_RDONLY));
    char text[20] = "";
    say("%zd %s", read(fd, text, sizeof(text) - 1), text), close(fd);
    fd = TRY(open(at(c, "fd/21"), O_RDWR)), memset(text, 0, sizeof(text));
    say("%zd %s", read(fd, text, sizeof(text) - 1), text), close(fd);
    fd = TRY(open(at(c, "fd/23"), O_WRONLY));
    EXPECT(write(fd, "through", 7) == 7), close(fd);
    fd = TRY(open(at(c, "fd/22"), O_RDONLY | O_NONBLOCK)), memset(text, 0, sizeof(text));
    say("%zd %s", read(fd, text, sizeof(text) - 1), text), close(fd);
    TRY(open(at(c, "fd/24"), O_RDWR)), TRY(open(at(c, "fd/99"), O_RDONLY));
    fd = TRY(open(at(c, "fd/25"), O_RDONLY | O_DIRECTORY)), close(fd);
    fd = TRY(open(at(c, "cwd"), O_PATH)), EXPECT(openat(fd, "file", O_RDONLY) >= 0), close(fd);
    fd = (int)MUST(open(at(c, ""), O_RDONLY | O_DIRECTORY));
    memset(path, 0, sizeof(path)), EXPECT(readlinkat(fd, "cwd", path, 299) > 0 && strstr(path, "/here")),
        close(fd);

    // Texts.
    EXPECT((s = slurp(at(c, "maps"))) && strstr(s, "[stack]") && strstr(s, "[vdso]") && !strstr(s, "krun") &&
           !strstr(s, "kvm") && strstr(s, target("/proc/self/exe")));
    EXPECT((s = slurp(at(c, "smaps"))) && strstr(s, "Rss:") && strstr(s, "VmFlags:") && !strstr(s, "kvm"));
    fd = (int)MUST(open(at(c, "environ"), O_RDONLY));
    char env[8192];
    EXPECT(memmem(env, (size_t)read(fd, env, sizeof(env)), "SEEN_BY_OTHERS=yes", 19)), close(fd);
    EXPECT((fd = open(at(c, "auxv"), O_RDONLY)) >= 0 && read(fd, path, 300) > 100), close(fd);
    say("%s / %s", line(slurp(at(c, "fdinfo/20")), "pos:"), line(slurp(at(c, "fdinfo/20")), "flags:"));
    EXPECT((s = slurp(at(c, "cmdline"))) && !strcmp(s, "a name"));
    s = slurp(at(c, "status"));
    say("%s, %s", line(s, "Threads:"), line(s, "NoNewPrivs:"));
    unsigned long caught, ignored;
    sscanf(line(s, "SigCgt:"), "SigCgt: %lx", &caught), sscanf(line(s, "SigIgn:"), "SigIgn: %lx", &ignored);
    say("caught %lx, ignored %lx", caught & 0x7fffffff, ignored);
    say("tasks %d", count(at(c, "task")));
    sprintf(path, "task/%d/cwd", c), say("%s", target(at(c, path)));
    TRY(open(at(c, "none"), O_RDONLY)), say("%s", target(at(c, "none")));

    // A process that does not want to be looked at still is, by the privileged; a dead one is not.
    NEED(write(stop[1], "s", 1) == 1);
    reap("child", c);
    say("%s", target(at(c, "exe")));
    return wrong;
}
