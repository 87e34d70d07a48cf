// The monitor's descriptors through a symbolic link: "fd/N" stands in no path that the payload gives, only in
// the link. A number that fstat(2) does not know must not be known by stat(2), statfs(2) or listxattr(2),
// either.
#include "attack.h"
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

int main(void) {
    const char *link = "/tmp/fd_symlink_stat";
    char name[64];
    int watch = inotify_init1(IN_NONBLOCK);
    for (int fd = 3; fd < 4200 && !attack_over(); fd++) {
        struct stat st;
        struct statfs fs;
        if (fd == watch || fstat(fd, &st) == 0 || errno != EBADF)
            continue;
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        unlink(link);
        if (symlink(name, link) < 0)
            attack_broken("symlink");
        if (stat(link, &st) == 0)
            attack_won("stat(2) of hidden descriptor %d: device %lx, inode %lu, size %ld", fd,
                       (long)st.st_dev, (long)st.st_ino, (long)st.st_size);
        if (statfs(link, &fs) == 0)
            attack_won("statfs(2) of hidden descriptor %d: type %lx", fd, (long)fs.f_type);
        if (listxattr(link, NULL, 0) >= 0)
            attack_won("listxattr(2) of hidden descriptor %d", fd);
        if (access(link, F_OK) == 0)
            attack_won("access(2) of hidden descriptor %d", fd);
        if (watch >= 0 && inotify_add_watch(watch, link, IN_OPEN) >= 0)
            attack_won("inotify_add_watch(2) of hidden descriptor %d", fd);
    }
    unlink(link);
    attack_lost();
}
