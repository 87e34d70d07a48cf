// unshare(2) of a user and a pid namespace is two calls to the monitor. Here the second fails, because a limit of processes leaves no
// room for KVM's thread: the call returns an error, and the process is in a user namespace of its own, where it has all
// capabilities. Those are not for the container's other processes: one that is not dumpable stays closed.
#include "attack.h"
#include <sys/resource.h>

#define FILLERS 8
#define LIMIT                                                                                                \
    9 // the four other processes have their KVM threads beside them; with the fillers it is exceeded

static void end_of(int fd) {
    char byte;
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

static void half(int go, pid_t victim) {
    static const char *const links[] = {"cwd", "exe", "root", "fd/0"}, *const texts[] = {"maps", "auxv",
                                                                                         "environ"};
    struct rlimit limit;
    char path[64], text[64];
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = LIMIT;
    setrlimit(RLIMIT_NPROC, &limit);
    snprintf(path, sizeof path, "/proc/%d/cwd", victim);
    if (readlink(path, text, sizeof text) >= 0)
        _exit(3); // it may be looked at: then this shows nothing
    if (write(go, "x", 1) != 1 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0)
        _exit(4);
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", victim, links[i]);
        if (readlink(path, text, sizeof text) >= 0)
            attack_won("%s of a process that is not dumpable", links[i]);
    }
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", victim, texts[i]);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0)
            attack_won("%s of a process that is not dumpable", texts[i]);
    }
    _exit(0);
}

// Whether the namespaces came apart.
static int one(void) {
    int life[2], go[2], status = 0;
    char byte;
    if (pipe(life) < 0 || pipe(go) < 0)
        attack_broken("pipe");
    pid_t victim = fork();
    if (victim == 0) {
        close(life[1]);
        prctl(PR_SET_DUMPABLE, 0);
        for (;;)
            pause();
    }
    for (int i = 0; i < FILLERS; i++)
        if (fork() == 0) {
            close(life[1]);
            end_of(life[0]);
        }
    pid_t pid = fork();
    if (pid == 0) {
        close(life[1]);
        half(go[1], victim);
    }
    close(go[1]);
    if (read(go[0], &byte, 1) == 1)
        usleep(300000);
    close(life[1]);                        // the fillers end, and the process runs on
    while (waitpid(-1, &status, 0) != pid) // one that is not waited for counts
        ;
    kill(victim, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    close(life[0]);
    close(go[0]);
    if (attack_child_won(status))
        _exit(ATTACK_WON);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void) {
    int came_apart = 0;
    do
        came_apart += one();
    while (!attack_over() && came_apart < 2);
    if (!came_apart)
        attack_broken("the namespaces did not come apart");
    attack_lost();
}
