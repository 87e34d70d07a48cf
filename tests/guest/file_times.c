// utimensat with nanoseconds, UTIME_NOW, UTIME_OMIT, on links, by descriptor: utimensat(2).
#include "guest.h"
static void show(const char *what, const char *path) {
    struct stat s;
    lstat(path, &s);
    say("%s: %ld.%09ld %ld.%09ld", what, (long)s.st_atim.tv_sec, s.st_atim.tv_nsec, (long)s.st_mtim.tv_sec,
        s.st_mtim.tv_nsec);
}
int main(int argc, char **argv) {
    int fd = file_with("f", "x");
    struct timespec t[2] = {{1000000000, 123456789}, {1500000000, 987654321}};
    struct timeval v[2] = {{100, 250000}, {200, 500000}};
    symlink("f", "l");
    TRY(utimensat(AT_FDCWD, "f", t, 0)), show("set", "f");
    t[0].tv_nsec = UTIME_OMIT, t[1].tv_sec = 7, t[1].tv_nsec = 1;
    TRY(futimens(fd, t)), show("omit", "f");
    t[0].tv_nsec = 5, t[0].tv_sec = 6;
    TRY(utimensat(AT_FDCWD, "l", t, AT_SYMLINK_NOFOLLOW)), show("link", "l");
    TRY(utimes("f", v)), show("utimes", "f");
    t[1].tv_nsec = UTIME_NOW;
    TRY(utimensat(AT_FDCWD, "f", t, 0));
    struct stat s;
    stat("f", &s);
    EXPECT(labs((long)s.st_mtime - (long)time(NULL)) < 100 && s.st_atime == 6);
    t[0].tv_nsec = 1000000000;
    TRY(utimensat(AT_FDCWD, "f", t, 0));
    TRY(utimensat(AT_FDCWD, "missing", NULL, 0));
    return wrong;
}
