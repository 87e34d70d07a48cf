// Two containers have the same root directory. While the second is made, between its mounts and its masks, a process of
// the first renames the directory /proc and makes a new one. A mount follows the directory that it lies on, so the
// second container's procfs is at the new name. A runtime that looks for /proc/sys, /proc/keys and the like by name then
// covers nothing. The row's hook (attacks.py, root_renamed) does what the first container does, at a sure moment.
#include "attack.h"

static int opens(const char *folder, const char *name, int flags) {
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int main(void) {
    static const char *const folders[] = {"/proc", "/renamed"};

    usleep(50000); // the watcher sees the process
    if (!opens("/renamed", "self/status", O_RDONLY))
        attack_broken("the procfs has not moved");
    for (int i = 0; i < 2; i++) {
        char byte;
        char path[PATH_MAX];

        // Opened, not written: the host's setting stays as it is.
        if (opens(folders[i], "sys/kernel/core_pattern", O_WRONLY))
            attack_won("%s/sys/kernel/core_pattern of the host can be written", folders[i]);
        snprintf(path, sizeof path, "%s/keys", folders[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, &byte, 1) == 1)
            attack_won("%s can be read: the mask is elsewhere", path);
    }
    attack_lost();
}
