// What the monitor reads of its own procfs to make a view of it: another thread reads low numbers, and wins
// with a line that shows a mapping above the window.
#include "attack.h"
#include <pthread.h>

static void *views(void *unused) {
    static const char *const names[] = {"/proc/self/maps", "/proc/self/smaps", "/proc/self/status",
                                        "/proc/self/stat"};
    char link[64];
    for (unsigned i = 0;; i++) {
        int fd = open(names[i % 4], O_RDONLY);
        if (fd >= 0)
            close(fd);
        if (i % 64 == 0 && readlink("/proc/self/cwd", link, sizeof link) < 0)
            break;
    }
    return unused;
}

static void judge(const char *text) {
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        unsigned long from, to;
        char perms[8];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && strspn(perms, "rwxsp-") == 4 &&
            from >= ATTACK_WINDOW_END && from < 0xff00000000000000UL)
            attack_won("the monitor's own maps: %.60s", line);
    }
}

int main(void) {
    static char text[65536];
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, views, NULL);
    while (!attack_over())
        for (int low = 3; low < 8; low++) {
            long n = pread(low, text, sizeof text - 1, 0);
            if (n > 0) {
                text[n] = 0;
                judge(text);
            }
        }
    attack_lost();
}
