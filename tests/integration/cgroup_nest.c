// Makes groups in one another below its own cgroup and puts a child into the innermost: cgroup_nest DIRECTORY DEPTH LENGTH [freeze].
// LENGTH is that of each name. With "freeze" the child's group is frozen by itself (cgroup v1).
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(int dir, const char *file, const char *text) {
    int fd = openat(dir, file, O_WRONLY);
    int ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

    close(fd);
    return ok;
}

int main(int argc, char **argv) {
    char name[256] = {0}, pid[32];
    int dir = open(argv[1], O_RDONLY | O_DIRECTORY), depth = atoi(argv[2]);

    memset(name, 'n', atoi(argv[3]));
    for (int i = 0; i < depth; i++) {
        int below;

        if (mkdirat(dir, name, 0755) || (below = openat(dir, name, O_RDONLY | O_DIRECTORY)) < 0)
            return perror("mkdir"), 1;
        close(dir);
        dir = below;
    }
    snprintf(pid, sizeof pid, "%d", fork());
    if (pid[0] == '0')
        for (;;)
            pause();
    printf("%s\n", put(dir, "cgroup.procs", pid) && (argc < 5 || put(dir, "freezer.state", "FROZEN"))
                       ? "ready"
                       : "failed");
    fflush(stdout);
    for (;;)
        pause();
}
