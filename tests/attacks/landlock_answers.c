// A process in a landlock domain looks into one outside of it: the kernel's rule for ptrace(2) refuses that, but the monitor of
// the other process answers (view/ask.h), and it is not in the domain. So does a program that is executed there, and a vfork child.
#include "attack.h"

static char secret[64] = "SECRET=of the process outside";

static void look(int pid) {
    static const char *const names[] = {"environ", "maps",     "auxv",   "exe",   "cwd",      "root",
                                        "fd/1",    "fdinfo/1", "ns/uts", "smaps", "root/etc", "root/../etc"};
    char path[64], text[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
        if (readlink(path, text, sizeof text) > 0)
            attack_won("link %s", names[i]);
        int fd = open(path, O_PATH | O_NOFOLLOW), object = open(path, O_PATH);
        if (object >= 0 && i >= 3 && i != 7 && i != 9)
            attack_won("object of %s", names[i]);
        close(fd), close(object);
        fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0)
            attack_won("text %s", names[i]);
        close(fd);
    }
}

int main(int argc, char **argv) {
    if (argc == 3) { // executed inside of the domain
        look(atoi(argv[2]));
        attack_lost();
    }
    putenv(secret);
    char number[16];
    int pid = (int)getpid(), status = 0;
    snprintf(number, sizeof number, "%d", pid);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child < 0)
            attack_broken("fork");
        if (child == 0) {
            attack_enter_domain();
            if (round == 1)
                execl("/proc/self/exe", argv[0], "inside", number, NULL);
            pid_t borrowed = round == 2 ? vfork() : -1;
            if (borrowed <= 0)
                look(pid);
            if (borrowed > 0)
                waitpid(borrowed, &status, 0);
            _exit(borrowed > 0 ? WEXITSTATUS(status) : 0);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        if (attack_child_won(status))
            _exit(ATTACK_WON);
        if (status)
            attack_broken("the child");
    }
    attack_lost();
}
