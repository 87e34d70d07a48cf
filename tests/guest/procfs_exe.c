// /proc/self/exe by link, open, stat; by pid, thread-self, dirfd, relative path: proc(5).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    char link[4096], path[60];
    struct stat a, b;
    stat(argv[0], &a);
    int d = MUST(open("/proc/self", O_PATH | O_DIRECTORY)),
        proc = MUST(open("/proc", O_RDONLY | O_DIRECTORY));
    sprintf(path, "%d/exe", getpid());
    struct {
        int fd;
        const char *name;
    } all[] = {{AT_FDCWD, "/proc/self/exe"},
               {AT_FDCWD, "/proc/thread-self/exe"},
               {d, "exe"},
               {proc, "self/exe"},
               {proc, path},
               {AT_FDCWD, "/proc/../proc/./self/exe"},
               {d, "../self/task/../exe"}};
    for (size_t i = 0; i < COUNT(all); i++) {
        memset(link, 0, sizeof(link));
        ssize_t n = readlinkat(all[i].fd, all[i].name, link, 4095);
        int fd = openat(all[i].fd, all[i].name, O_RDONLY);
        fstat(fd, &b);
        char magic[4] = "";
        pread(fd, magic, 4, 0), close(fd);
        int same = n == (ssize_t)strlen(argv[0]) && !strcmp(link, argv[0]);
        say("%zu: link %d, same file %d, ELF %d, stat %d", i, same,
            a.st_ino == b.st_ino && a.st_dev == b.st_dev, !memcmp(magic, "\177ELF", 4),
            fstatat(all[i].fd, all[i].name, &b, 0) == 0 && b.st_ino == a.st_ino);
    }
    chdir("/proc/self");
    say("by working directory %zd", readlink("exe", link, 4095) - (ssize_t)strlen(argv[0]));
    TRY(open("/proc/self/exe", O_RDWR) >= 0 ? 0 : errno == ETXTBSY ? 0 : -1);
    SHOW(readlink("/proc/self/exe", link, 3));
    return 0;
}
