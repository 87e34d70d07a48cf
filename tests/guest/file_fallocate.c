// fallocate(2): grow, keep size, punch holes, zero ranges; SEEK_HOLE and SEEK_DATA: lseek(2).
#include "guest.h"
#include <linux/falloc.h>
int main(int argc, char **argv) {
    int fd = file_with("f", "");
    struct stat s;
    if (fallocate(fd, 0, 0, 8 * PAGE) < 0)
        return say("%s", errno_name(errno)), 0;
    fstat(fd, &s), say("size %ld, allocated %d", (long)s.st_size, s.st_blocks >= 64);
    char *fill = pages(8), c = 'x';
    memset(fill, 'f', 8 * PAGE), pwrite(fd, fill, 8 * PAGE, 0);
    TRY(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * PAGE, 3 * PAGE));
    pread(fd, &c, 1, 3 * PAGE), say("in the hole %d", c);
    SHOW(lseek(fd, 0, SEEK_HOLE));
    SHOW(lseek(fd, 2 * PAGE, SEEK_DATA));
    SHOW(lseek(fd, 8 * PAGE, SEEK_DATA));
    TRY(fallocate(fd, FALLOC_FL_KEEP_SIZE, 8 * PAGE, PAGE));
    fstat(fd, &s), say("size %ld", (long)s.st_size);
    TRY(fallocate(fd, 0, -1, 1));
    TRY(fallocate(fd, 0, 0, 0));
    TRY(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, PAGE));
    TRY(fallocate(MUST(open("f", O_RDONLY)), 0, 0, PAGE));
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
    TRY(posix_fadvise(fd, 0, 0, 99) ? (errno = EINVAL, -1) : 0);
    TRY(readahead(fd, 0, PAGE));
    return 0;
}
