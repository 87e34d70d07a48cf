// What /proc shows of a process is the kernel's word: a thread that puts other files under the numbers that
// are free meanwhile does not change it for a reader. proc_pid_maps(5). krun: host timeout=40
#include "guest.h"
#include <dirent.h>

static void *exchange(void *unused) {
    (void)unused;
    int low = dup(0); /* the lowest free number */
    close(low);
    for (;;) {
        int fake = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fake < 0)
            continue;
        write(fake, "FORGED\n", 7);
        int far = fcntl(fake, F_DUPFD, 40);
        close(fake);
        for (int i = 0; i < 50; i++)
            dup2(far, low), close(low);
        close(far);
    }
    return unused;
}

static void *idle(void *unused) {
    pause();
    return unused;
}

int main(int argc, char **argv) {
    char path[64], text[64];
    int forged = 0, read_some = 0;
    pid_t pid = CHILD({
        pthread_t thread[2];
        pthread_create(&thread[0], NULL, idle, NULL), pthread_create(&thread[1], NULL, exchange, NULL);
        for (;;)
            pause();
    });
    pause_ms(100);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    for (int i = 0; i < 120; i++) {
        int fd = open(path, O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        read_some += n > 0;
        forged += n > 0 && memcmp(text, "FORGED", 6) == 0;
        close(fd);
    }
    say("read: %s, forged %d", read_some ? "yes" : "no", forged);
    kill(pid, SIGKILL);
    return 0;
}
