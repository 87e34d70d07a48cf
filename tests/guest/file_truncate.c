// truncate, ftruncate: shrink, grow with zeros, sparse sizes, errors; sync family: truncate(2), fsync(2).
#include "guest.h"
int main(int argc, char **argv) {
    int fd = file_with("f", "0123456789"), p[2];
    char b[12] = "";
    struct stat s;
    TRY(ftruncate(fd, 4)), TRY(ftruncate(fd, 8));
    SHOW(pread(fd, b, 12, 0)), say("%d %d", b[3], b[4]);
    TRY(truncate("f", 1L << 33));
    fstat(fd, &s), say("size %ld, blocks few %d", (long)s.st_size, s.st_blocks < 1000);
    TRY(truncate("f", -1));
    TRY(truncate("missing", 1));
    TRY(truncate(".", 1));
    TRY(ftruncate(MUST(open("f", O_RDONLY)), 1));
    TRY(fsync(fd)), TRY(fdatasync(fd)), TRY(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
    MUST(pipe(p));
    TRY(fsync(p[0])), TRY(ftruncate(p[1], 1)), TRY(fsync(99));
    return 0;
}
