// Has the monitor execute something else than itself: every way in which execve and execveat name a file (paths, links of
// /proc, descriptors of files, memfds, O_PATH ones, the monitor's own numbers), with every flag, while another thread puts
// this program at every number. What is executed looks where it stands.
#include "attack.h"
#include <pthread.h>
#include <sys/resource.h>

#define EMPTY_PATH 0x1000
#define NOFOLLOW 0x100
#define CHECK 0x10000

static int memfd = -1, file = -1, opath = -1;
static unsigned limit;

static void *shuffler(void *unused) {
    (void)unused;
    for (unsigned i = 0; !attack_over(); i++) {
        unsigned number = limit > 160 ? limit - 128 + i % 256 : i % 256;
        int from = i % 2 ? memfd : file;
        if (dup2(from, (int)number) < 0 && fcntl(from, F_DUPFD, number) > 100)
            close((int)number);
        if (i % 7 == 0)
            syscall(SYS_close_range, number, number + 8, i & 4);
    }
    return NULL;
}

static const char *const argv_[] = {"self", "again", NULL};

// One attempt, in a child that shares the memory and, by turns, the descriptor table.
static void attempt(int fd, const char *path, long flags) {
    const char *envp[] = {getenv("ATTACK_SECONDS") ? "ATTACK_SECONDS=1" : "A=1", "KRUN_BOOT=3", NULL};
    pid_t pid = fork();
    if (pid == 0) {
        if (flags < 0)
            execve(path, (char **)argv_, (char **)envp);
        else
            syscall(SYS_execveat, fd, path, argv_, envp, flags);
        _exit(0);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && attack_child_won(status))
        attack_won("execveat(%d, \"%s\", %#lx) ran natively", fd,
                   path && path != (void *)0x6d0000000000 ? path : "?", flags);
}

int main(int argc, char **argv) {
    attack_check_native();
    if (argc > 1 && strcmp(argv[1], "again") == 0)
        return 0;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    limit = r.rlim_cur < 4096 ? (unsigned)r.rlim_cur : 4096;
    file = open("/proc/self/exe", O_RDONLY);
    opath = open("/proc/self/exe", O_PATH);
    memfd = (int)syscall(SYS_memfd_create, "own", 0);
    char block[65536];
    for (ssize_t n; file >= 0 && (n = read(file, block, sizeof block)) > 0;)
        if (write(memfd, block, (size_t)n) != n)
            attack_broken("memfd");
    if (file < 0 || opath < 0 || memfd < 0)
        attack_broken("own program");
    pthread_t thread;
    if (pthread_create(&thread, NULL, shuffler, NULL))
        attack_broken("thread");
    static const long flags[] = {EMPTY_PATH, EMPTY_PATH | NOFOLLOW, EMPTY_PATH | CHECK,    CHECK,
                                 0,          EMPTY_PATH | 0x400,    EMPTY_PATH | 1L << 32, -1};
    while (!attack_over()) {
        char link[64];
        const int fds[] = {memfd, opath, file, AT_FDCWD};
        for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
            for (unsigned k = 0; k < 4; k++) {
                attempt(fds[k], "", flags[i]);
                snprintf(link, sizeof link, "/proc/self/fd/%d", fds[k]);
                attempt(AT_FDCWD, link, flags[i]);
            }
            attempt(memfd, (const char *)0x6d0000000000, flags[i]); // the monitor's constant empty path
            for (unsigned n = limit > 64 ? limit - 64 : 0; n < limit + 80 && !attack_over(); n += 5)
                attempt((int)n, "", flags[i]);
        }
    }
    attack_lost();
}
