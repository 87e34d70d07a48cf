// Links of a process of the host that is in sight (--pid=host): /proc/PID/cwd, root, exe, fd/N lead out of
// the container. The kernel lets those follow them who have the process's user and capabilities: so the
// monitor must not.
#include "attack.h"
#include <dirent.h>

static char secret[PATH_MAX], drop[PATH_MAX], wanted[64];

// What must not be there: the canaries of the host, by any way out.
static void through(int pid, const char *link) {
    static const char *const forms[] = {"/proc/%d/%s%s", "/proc/%d/./%s/.%s", "pid/%s%s"};
    char path[PATH_MAX * 3], made[PATH_MAX * 3], up[64] = "/../../../../../../..";
    for (int form = 0; form < 3; form++)
        for (int deep = 0; deep < 2; deep++) {
            char tail[PATH_MAX + 128];
            snprintf(tail, sizeof tail, "%s%s", deep ? up : "", secret);
            if (form == 2)
                snprintf(path, sizeof path, forms[form], link, tail);
            else
                snprintf(path, sizeof path, forms[form], pid, link, tail);
            struct stat st;
            if (stat(path, &st) == 0)
                attack_won("stat of a file of the host: %.300s", path);
            int fd = open(path, O_RDONLY);
            if (fd >= 0)
                attack_won("a file of the host opened: %.300s", path);
            snprintf(tail, sizeof tail, "%s%s/made", deep ? up : "", drop);
            if (form == 2)
                snprintf(made, sizeof made, forms[form], link, tail);
            else
                snprintf(made, sizeof made, forms[form], pid, link, tail);
            if (mkdir(made, 0700) == 0)
                attack_won("a directory made on the host: %.300s", made);
            if (symlink("x", made) == 0)
                attack_won("a link made on the host: %.300s", made);
            if (truncate(path, 0) == 0)
                attack_won("a file of the host truncated: %.300s", path);
        }
    snprintf(path, sizeof path, "/proc/%d/%s", pid, link);
    int fd = open(path, O_PATH);
    if (fd >= 0 && strcmp(link, "exe") != 0) {
        if (openat(fd, "proc/1/root", O_PATH) >= 0 || openat(fd, secret + 1, O_PATH) >= 0)
            attack_won("a directory of the host: %s", path);
        attack_won("an object of a process of the host: %s", path);
    }
    if (fd >= 0)
        attack_won("the program of a process of the host: %s", path);
    if (chdir(path) == 0)
        attack_won("a working directory of the host: %s", path);
}

// Whether it is the bystander: its name says it; others may be monitors of this container.
static int is_host(int pid) {
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    long n = read(fd, name, sizeof name - 1);
    close(fd);
    name[n > 0 ? n : 0] = 0;
    return strncmp(name, wanted, strlen(wanted)) == 0;
}

int main(int argc, char **argv) {
    unsigned seen = 0;
    snprintf(wanted, sizeof wanted, "%s", argc > 1 ? argv[1] : "sleep");
    snprintf(secret, sizeof secret, "%s", attack_canary("secret"));
    snprintf(drop, sizeof drop, "%s", attack_canary("drop"));
    mkdir("/tmp/host", 0700);
    if (chdir("/tmp/host") < 0)
        attack_broken("a directory");
    while (!attack_over()) {
        DIR *dir = opendir("/proc");
        for (struct dirent *e; dir && (e = readdir(dir));) {
            int pid = atoi(e->d_name);
            if (pid <= 0 || !is_host(pid))
                continue;
            char target[64], link[32];
            seen++;
            snprintf(target, sizeof target, "/proc/%d", pid);
            unlink("pid");
            if (symlink(target, "pid") < 0)
                attack_broken("symlink");
            through(pid, "cwd");
            through(pid, "root");
            through(pid, "exe");
            for (int fd = 0; fd < 6; fd++) {
                snprintf(link, sizeof link, "fd/%d", fd);
                through(pid, link);
            }
            snprintf(link, sizeof link, "task/%d/root", pid);
            through(pid, link);
            through(pid, "ns/mnt");
        }
        if (dir)
            closedir(dir);
        usleep(10000);
    }
    if (!seen)
        attack_broken("no process of the host is in sight");
    attack_lost();
}
