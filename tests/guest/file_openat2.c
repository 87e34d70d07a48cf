// openat2(2): RESOLVE_BENEATH, IN_ROOT, NO_SYMLINKS, NO_MAGICLINKS, NO_XDEV, size checks.
#include "guest.h"
#include <linux/openat2.h>
static long at(int d, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how h = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, d, path, &h, sizeof(h));
}
int main(int argc, char **argv) {
    struct {
        struct open_how h;
        uint64_t more;
    } big = {.more = 1};
    mkdir("d", 0755), close(file_with("d/f", "x")), close(file_with("out", "y"));
    symlink("../out", "d/up"), symlink("/f", "d/abs"), symlink("f", "d/l");
    int d = MUST(open("d", O_PATH));
    TRY(at(d, "f", O_RDONLY, RESOLVE_BENEATH));
    TRY(at(d, "../out", O_RDONLY, RESOLVE_BENEATH));
    TRY(at(d, "up", O_RDONLY, RESOLVE_BENEATH));
    TRY(at(d, "abs", O_RDONLY, RESOLVE_IN_ROOT));
    TRY(at(d, "../../../f", O_RDONLY, RESOLVE_IN_ROOT));
    TRY(at(d, "l", O_RDONLY, 0));
    TRY(at(d, "l", O_RDONLY, RESOLVE_NO_SYMLINKS));
    TRY(at(AT_FDCWD, "/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS));
    TRY(at(AT_FDCWD, "/proc/self/status", O_RDONLY, RESOLVE_NO_XDEV));
    TRY(at(d, "f", O_RDONLY, 0x1000));
    TRY(at(d, "f", 1ULL << 40, 0));
    TRY(syscall(SYS_openat2, d, "f", &big, 8));
    TRY(syscall(SYS_openat2, d, "f", &big, sizeof(big)));
    TRY(syscall(SYS_openat2, d, "f", 8, sizeof(big.h)));
    return 0;
}
