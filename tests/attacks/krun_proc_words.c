// The arguments of krun's own process on its way into the container: /proc/PID/cmdline is for everybody, and `krun exec` has paths
// of the host there, and the values of --env. Its environment is for whoever may trace it (CAP_SYS_PTRACE).
#include "attack.h"
#include <dirent.h>

// Whether the entry of process pid has this word.
static int has(int pid, const char *entry, const char *word) {
    static char text[1 << 16];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, entry);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(text, (size_t)n, word, strlen(word)) != NULL;
}

int main(void) {
    while (!attack_over()) {
        DIR *proc = opendir("/proc");
        if (!proc)
            attack_broken("/proc");
        for (struct dirent *e; (e = readdir(proc));) {
            int pid = atoi(e->d_name);
            if (pid <= 0 || pid == getpid())
                continue;
            if (has(pid, "cmdline", "--root"))
                attack_won("the arguments of krun, process %d", pid);
            if (has(pid, "environ", "ATTACK_HOST_WORD"))
                attack_won("the environment of krun, process %d", pid);
        }
        closedir(proc);
    }
    attack_lost();
}
