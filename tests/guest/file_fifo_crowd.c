// Many threads wait in open(2) of FIFOs without another end: other opens go on, and each FIFO opens when its
// other end comes (fifo(7)).
#include "guest.h"
enum { N = 12 };
static int opened;

static void *reader(void *name) {
    int fd = open(name, O_RDONLY);
    if (fd >= 0)
        __atomic_add_fetch(&opened, 1, __ATOMIC_SEQ_CST), close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    char name[N][8];
    pthread_t all[N];
    int left = N, done[N] = {0};
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "f%d", i), MUST(mkfifo(name[i], 0600));
        all[i] = thread(reader, name[i]);
    }
    pause_ms(50);
    for (int i = 0; i < 20; i++) {
        int fd = (int)MUST(open("/dev/null", O_RDONLY)), both = (int)MUST(open("f0", O_RDONLY | O_NONBLOCK));
        close(fd), close(both);
    }
    say("other opens went on");
    while (left) {
        for (int i = 0; i < N; i++) {
            int fd = done[i] ? -1 : open(name[i], O_WRONLY | O_NONBLOCK);
            if (fd >= 0)
                left--, done[i] = 1, close(fd);
        }
        pause_ms(1);
    }
    for (int i = 0; i < N; i++)
        join(all[i]);
    say("opened %d", opened);
    return wrong;
}
