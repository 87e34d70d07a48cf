// O_TMPFILE: an unnamed file, linked into the file system afterwards: open(2), linkat(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = open(".", O_TMPFILE | O_RDWR, 0640);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        return say("not supported by this file system"), 0;
    struct stat s;
    char path[40], text[6] = "";
    write(fd, "hello", 5);
    fstat(fd, &s), say("links %ld, mode %o", (long)s.st_nlink, s.st_mode);
    sprintf(path, "/proc/self/fd/%d", fd);
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "name", AT_SYMLINK_FOLLOW));
    fstat(fd, &s), say("links %ld", (long)s.st_nlink);
    read(MUST(open("name", O_RDONLY)), text, 5), say("%s", text);
    TRY(linkat(fd, "", AT_FDCWD, "second", AT_EMPTY_PATH));
    TRY(linkat(MUST(open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600)), "", AT_FDCWD, "third", AT_EMPTY_PATH));
    return 0;
}
