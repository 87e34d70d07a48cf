// openat2(2): RESOLVE_BENEATH, IN_ROOT, NO_SYMLINKS, NO_MAGICLINKS, NO_XDEV, size checks; O_CREAT through
// dangling links, also with two threads.
#include "guest.h"
#include <linux/openat2.h>
static long at(int d, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how h = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, d, path, &h, sizeof(h));
}
static void *idle(void *unused) {
    pause();
    return unused;
}
static void make(int d, const char *link, const char *made, uint64_t resolve) {
    struct open_how h = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = resolve};
    int fd = (int)syscall(SYS_openat2, d, link, &h, sizeof(h));
    const char *how = fd < 0 ? errno_name(errno) : "open";
    say("%s %llx: %s, %s", link, (unsigned long long)resolve, how,
        unlinkat(d, made, 0) == 0 ? "made" : "not made");
    close(fd);
}
static void dangling(int d) {
    make(d, "to", "new", RESOLVE_BENEATH);
    make(d, "to", "new", RESOLVE_IN_ROOT);
    make(d, "to", "new", RESOLVE_NO_MAGICLINKS);
    make(d, "to", "new", RESOLVE_NO_SYMLINKS);
    make(d, "to2", "new", RESOLVE_IN_ROOT);
    make(d, "sub/up", "new", RESOLVE_BENEATH);
    make(d, "away", "new", RESOLVE_BENEATH);
    make(d, "away", "new", RESOLVE_IN_ROOT);
    make(d, "root", "new", RESOLVE_BENEATH);
    make(d, "root", "new", RESOLVE_IN_ROOT);
    make(d, "slash", "new", RESOLVE_IN_ROOT);
    make(d, "nowhere", "new", RESOLVE_IN_ROOT);
    make(d, "loop", "new", RESOLVE_IN_ROOT);
    make(d, "to", "new", RESOLVE_NO_XDEV);
    make(d, "to2", "new", RESOLVE_NO_XDEV);
    make(d, "sub/up", "new", RESOLVE_NO_XDEV);
    make(d, "far", "/dev/shm/krun-openat2", RESOLVE_NO_XDEV);
    make(d, "far", "/dev/shm/krun-openat2", 0);
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
    symlink("new", "d/to"), symlink("to", "d/to2"), mkdir("d/sub", 0755), symlink("../new", "d/sub/up");
    symlink("../new", "d/away"), symlink("/new", "d/root"), symlink("new/", "d/slash"),
        symlink("loop", "d/loop");
    symlink("no/new", "d/nowhere"), symlink("/dev/shm/krun-openat2", "d/far");
    dangling(d);
    pthread_t thread;
    MUST(-pthread_create(&thread, NULL, idle, NULL));
    dangling(d);
    return 0;
}
