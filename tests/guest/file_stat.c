// stat, lstat, fstat, statx of files, directories, links, pipes, devices: stat(2), statx(2).
// krun: static musl
#include "guest.h"
#include <sys/sysmacros.h>
int main(int argc, char **argv) {
    struct stat s, t;
    int fd = file_with("f", "0123456789"), p[2];
    MUST(link("f", "g")), MUST(symlink("f", "l")), MUST(pipe(p)), MUST(mkdir("d", 0751));
    fstat(fd, &s), stat("g", &t);
    say("same %d, links %ld, size %ld, block size ok %d", s.st_ino == t.st_ino && s.st_dev == t.st_dev,
        (long)s.st_nlink, (long)s.st_size, s.st_blksize >= 512);
    lstat("l", &s), stat("l", &t);
    say("lstat %o %ld, stat %o", s.st_mode & S_IFMT, (long)s.st_size, t.st_mode);
    stat("d", &s), say("directory %o", s.st_mode);
    fstat(p[0], &s), say("pipe %o", s.st_mode & S_IFMT);
    stat("/dev/null", &s), say("null %o %u:%u", s.st_mode & S_IFMT, major(s.st_rdev), minor(s.st_rdev));
    EXPECT(labs((long)t.st_mtime - (long)time(NULL)) < 100);
    TRY(stat("missing", &s));
    TRY(fstat(77, &s));
    TRY(stat("f/", &s));
    return wrong;
}
