// inotify(7): create, write, rename with cookies, delete, removal of watches.
#include "guest.h"
#include <sys/inotify.h>
int main(int argc, char **argv) {
    char buffer[4096] __attribute__((aligned(8)));
    mkdir("d", 0755);
    int i = MUST(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    int w = SHOW(inotify_add_watch(
        i, "d", IN_CREATE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE));
    TRY(read(i, buffer, sizeof(buffer)));
    close(file_with("d/f", "x")), rename("d/f", "d/g"), unlink("d/g"), mkdir("d/sub", 0755);
    struct pollfd p = {i, POLLIN, 0};
    SHOW(poll(&p, 1, 1000));
    uint32_t cookie = 0;
    ssize_t n = read(i, buffer, sizeof(buffer));
    for (char *at = buffer; at < buffer + n;) {
        struct inotify_event *e = (void *)at;
        if (e->mask & IN_MOVED_FROM)
            cookie = e->cookie;
        say("mask %x, name %s, cookie %s", e->mask, e->name,
            !e->cookie            ? "none"
            : e->cookie == cookie ? "same"
                                  : "other");
        at += sizeof(*e) + e->len;
    }
    TRY(inotify_rm_watch(i, w));
    n = read(i, buffer, sizeof(buffer)), say("mask %x", ((struct inotify_event *)buffer)->mask);
    TRY(inotify_rm_watch(i, w));
    TRY(inotify_add_watch(i, "missing", IN_CREATE));
    TRY(inotify_add_watch(0, "d", IN_CREATE));
    TRY(inotify_init1(1));
    return 0;
}
