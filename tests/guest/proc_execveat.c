// execveat(2): relative to a directory, AT_EMPTY_PATH on a descriptor (O_PATH too), AT_SYMLINK_NOFOLLOW,
// which is not for the interpreter of a script.
#include "guest.h"
int main(int argc, char **argv) {
    if (argc > 1)
        return say("ran %s", argv[1]), atoi(argv[1]);
    mkdir("d", 0755), symlink(argv[0], "d/link");
    int d = MUST(open("d", O_RDONLY | O_DIRECTORY)), path = MUST(open(argv[0], O_PATH)),
        plain = MUST(open(argv[0], O_RDONLY));
    char *env[] = {NULL};
#define AT(fd, name, flags, n)                                                                               \
    reap(n, CHILD({                                                                                          \
             syscall(SYS_execveat, fd, name, ((char *[]){"x", n, NULL}), env, flags);                        \
             say("%s %s", n, errno_name(errno));                                                             \
         }))
    AT(d, "link", 0, "1");
    AT(d, "link", AT_SYMLINK_NOFOLLOW, "2");
    AT(path, "", AT_EMPTY_PATH, "3");
    AT(plain, "", AT_EMPTY_PATH, "4");
    AT(plain, "", 0, "5");
    AT(99, "x", 0, "6");
    AT(99, argv[0], 0, "7");
    AT(plain, "x", 0, "8");
    AT(d, "link", 0x8000, "9");
    char line[PATH_MAX];
    snprintf(line, sizeof line, "#!%s/d/link 10\n", getcwd((char[PATH_MAX - 32]){0}, PATH_MAX - 32));
    close(file_with("script", line)), chmod("script", 0755);
    AT(AT_FDCWD, "script", AT_SYMLINK_NOFOLLOW, "11");
    return 0;
}
