// What an ordinary user may watch with fanotify(7): names and kinds of events on inodes.
#include "guest.h"
#include <sys/fanotify.h>
#ifndef FAN_REPORT_DFID_NAME
#define FAN_REPORT_DFID_NAME 0xc00
#endif
int main(int argc, char **argv) {
    if (!getuid()) {
        MUST(chmod(".", 0777)), MUST(setresuid(1000, 1000, 1000));
    }
    int f = (int)syscall(SYS_fanotify_init,
                         FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_REPORT_DFID_NAME | FAN_NONBLOCK | FAN_CLOEXEC,
                         O_RDONLY);
    if (f < 0)
        return say("fanotify_init: %s", errno_name(errno)), 0; /* a kernel without it */
    SHOW(fcntl(f, F_GETFD)), SHOW(syscall(SYS_fanotify_init, FAN_CLASS_NOTIF, O_RDONLY)),
        SHOW(syscall(SYS_fanotify_init, FAN_CLASS_CONTENT, O_RDONLY)),
        SHOW(syscall(SYS_fanotify_init, FAN_REPORT_FID | FAN_UNLIMITED_QUEUE, O_RDONLY)),
        SHOW(syscall(SYS_fanotify_init, FAN_REPORT_FID, 0xf0000000));
    if (TRY(syscall(SYS_fanotify_mark, f, FAN_MARK_ADD,
                    (uint64_t)(FAN_CREATE | FAN_DELETE | FAN_MODIFY | FAN_EVENT_ON_CHILD), AT_FDCWD, ".")) <
        0)
        return 0; /* a file system without handles */
    SHOW(syscall(SYS_fanotify_mark, f, FAN_MARK_ADD | FAN_MARK_MOUNT, (uint64_t)FAN_OPEN, AT_FDCWD, ".")),
        SHOW(syscall(SYS_fanotify_mark, f, FAN_MARK_ADD, (uint64_t)FAN_OPEN_PERM, AT_FDCWD, ".")),
        SHOW(syscall(SYS_fanotify_mark, f, FAN_MARK_ADD, (uint64_t)FAN_CREATE, AT_FDCWD, "none"));
    int fd = file_with("watched", "text");
    close(fd), MUST(unlink("watched"));
    char buf[4096] __attribute__((aligned(8)));
    long n = read(f, buf, sizeof buf);
    struct fanotify_event_metadata *e = (void *)buf;
    uint64_t mask = 0;
    int descriptors = 0, named = 0;
    for (; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n))
        mask |= e->mask, descriptors += e->fd != FAN_NOFD,
            named += memmem(e, e->event_len, "watched", 8) != NULL;
    say("mask %llx, %d descriptors, named %d", (unsigned long long)mask, descriptors, named > 0);
    SHOW(read(f, buf, sizeof buf));
    return wrong;
}
