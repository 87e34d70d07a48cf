// statx(2): mask, attributes, birth time if there is one, AT_EMPTY_PATH, errors.
#include "guest.h"
int main(int argc, char **argv) {
    struct statx x;
    int fd = file_with("f", "abc");
    memset(&x, 0xee, sizeof(x));
    TRY(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS | STATX_BTIME, &x));
    say("mask %x, size %lu, mode %o, links %u", x.stx_mask & STATX_BASIC_STATS, (long)x.stx_size, x.stx_mode,
        x.stx_nlink);
    EXPECT(!(x.stx_mask & STATX_BTIME) || labs((long)x.stx_btime.tv_sec - (long)time(NULL)) < 100);
    TRY(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &x));
    TRY(statx(fd, "", 0, STATX_SIZE, &x));
    TRY(statx(AT_FDCWD, "f", 0x80000000, STATX_SIZE, &x));
    TRY(statx(AT_FDCWD, "f", 0, 0x80000000, &x));
    TRY(syscall(SYS_statx, AT_FDCWD, "f", 0, STATX_SIZE, 8));
    return wrong;
}
