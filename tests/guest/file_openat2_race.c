// RESOLVE_NO_XDEV with O_CREAT, while another thread exchanges a dangling link of the same file system for
// one to another file system: never is a file made there. openat2(2)
#include "guest.h"
#include <linux/openat2.h>
#define FAR "/dev/shm/krun-openat2-race"

static volatile int over;
static void *exchange(void *unused) {
    while (!over)
        renameat2(AT_FDCWD, "link", AT_FDCWD, "other", RENAME_EXCHANGE);
    return unused;
}

int main(int argc, char **argv) {
    struct open_how h = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_NO_XDEV};
    pthread_t thread;
    int made = 0;
    MUST(symlink("near", "link")), MUST(symlink(FAR, "other"));
    MUST(-pthread_create(&thread, NULL, exchange, NULL));
    for (int i = 0; i < 1500; i++) {
        close((int)syscall(SYS_openat2, AT_FDCWD, "link", &h, sizeof h));
        made += unlink(FAR) == 0;
        unlink("near");
    }
    over = 1, pthread_join(thread, NULL);
    say("made %d", made);
    return 0;
}
