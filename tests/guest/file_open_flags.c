// open(2): O_EXCL, O_CREAT with umask, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, access modes.
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    struct stat s;
    umask(027);
    int fd = MUST(open("f", O_CREAT | O_RDWR | O_EXCL, 0666));
    fstat(fd, &s), say("mode %o", s.st_mode);
    TRY(open("f", O_CREAT | O_EXCL | O_RDWR, 0666));
    write(fd, "12345", 5);
    int a = MUST(open("f", O_WRONLY | O_APPEND));
    lseek(a, 0, SEEK_SET), write(a, "67", 2), SHOW(lseek(a, 0, SEEK_CUR));
    TRY(read(a, &s, 1));
    SHOW(fcntl(a, F_GETFL) & (O_ACCMODE | O_APPEND));
    MUST(open("f", O_WRONLY | O_TRUNC));
    fstat(fd, &s), say("size %ld", (long)s.st_size);
    TRY(open("f", O_RDONLY | O_DIRECTORY));
    TRY(open(".", O_RDWR));
    MUST(symlink("f", "l")), MUST(symlink("nowhere", "dangling"));
    TRY(open("l", O_RDONLY | O_NOFOLLOW));
    TRY(open("dangling", O_RDONLY));
    TRY(open("dangling", O_CREAT | O_EXCL | O_RDWR, 0600));
    TRY(open("f/x", O_RDONLY));
    TRY(open("missing", O_RDWR));
    int p = MUST(open("l", O_PATH | O_NOFOLLOW));
    TRY(read(p, &s, 1));
    fstat(p, &s), say("O_PATH is a link %d", S_ISLNK(s.st_mode));
    TRY(open(".", O_RDONLY | O_CREAT, 0600));
    return 0;
}
