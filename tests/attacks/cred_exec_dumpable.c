// The environment of a program that was executed with two kinds of ids (real 1000, effective 0) and has one kind after it: with
// no_new_privs the kernel takes back what root would gain by an execve, its id included. It leaves the program undumpable, so other processes of user 1000 may not look (begin_new_exec(), commit_creds()).
#include "attack.h"
#include <linux/capability.h>

static pid_t holder(const char *self) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    pid_t pid = fork();
    if (pid == 0) {
        if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 0, 1000) < 0)
            attack_broken("setresuid");
        if (syscall(SYS_capset, &head, none) < 0)
            attack_broken("capset");
        execle(self, self, "hold", NULL, (char *[]){"SECRET=of the one before", NULL});
        attack_broken("execve");
    }
    return pid;
}

static int sees(pid_t pid, const char *word) {
    static char text[4096];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(text, (size_t)n, word, strlen(word)) != NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (geteuid() != 1000)
            attack_broken("the ids after an execve");
        for (;;)
            pause();
    }
    pid_t pid = holder(argv[0]);
    if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
        attack_broken("setresuid");
    while (!attack_over()) {
        if (sees(pid, "SECRET"))
            attack_won("the environment of process %d", (int)pid);
        usleep(10000);
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    attack_lost();
}
