// Calls of recent kernels on files: cachestat(2), fchmodat2(2), setxattrat(2), file_getattr(2), statmount(2),
// listmount(2).
#include "guest.h"
#include <linux/stat.h>
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
enum {
    STATMOUNT = 457,
    LISTMOUNT,
    SETXATTRAT = 463,
    GETXATTRAT,
    LISTXATTRAT,
    REMOVEXATTRAT,
    OPEN_TREE_ATTR,
    FILE_GETATTR,
    FILE_SETATTR
};
int main(int argc, char **argv) {
    struct stat st;
    char buf[4096];
    int fd = (int)MUST(open("f", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < 8; i++)
        MUST(write(fd, buf, sizeof buf));
    struct {
        uint64_t off, len;
    } range = {0, 0};
    struct {
        uint64_t cache, dirty, writeback, evicted, recently;
    } cs = {0};
    long have = SHOW(syscall(SYS_cachestat, fd, &range, &cs, 0));
    EXPECT(have < 0 || cs.cache == 8);
    SHOW(syscall(SYS_cachestat, fd, &range, &cs, 1)), SHOW(syscall(SYS_cachestat, 900, &range, &cs, 0));
    SHOW(syscall(SYS_cachestat, fd, (void *)8, &cs, 0)),
        SHOW(syscall(SYS_cachestat, fd, &range, (void *)-8, 0));

    MUST(symlink("f", "l"));
    SHOW(syscall(SYS_fchmodat2, AT_FDCWD, "f", 0600, 0));
    MUST(stat("f", &st));
    say("mode %o", st.st_mode & 0777);
    SHOW(syscall(SYS_fchmodat2, AT_FDCWD, "l", 0640, AT_SYMLINK_NOFOLLOW)),
        SHOW(syscall(SYS_fchmodat2, fd, "", 0644, AT_EMPTY_PATH));
    MUST(stat("f", &st));
    say("mode %o", st.st_mode & 0777);
    SHOW(syscall(SYS_fchmodat2, AT_FDCWD, "f", 0600, 1)),
        SHOW(syscall(SYS_fchmodat2, AT_FDCWD, "none", 0600, 0));

    struct {
        uint64_t value;
        uint32_t size, flags;
    } xa = {(uint64_t) "text", 4, 0};
    SHOW(syscall(SETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, sizeof xa));
    SHOW(syscall(SETXATTRAT, fd, "", AT_EMPTY_PATH, "user.b", &xa, sizeof xa));
    xa.flags = 1; /* XATTR_CREATE */
    SHOW(syscall(SETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, sizeof xa));
    SHOW(syscall(SETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, 8)),
        SHOW(syscall(SETXATTRAT, AT_FDCWD, "f", 0, "user.a", (void *)8, sizeof xa));
    xa.value = 8, xa.flags = 0;
    SHOW(syscall(SETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, sizeof xa));
    xa.value = (uint64_t)buf, xa.size = sizeof buf;
    SHOW(syscall(GETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, sizeof xa)), say("%.4s", buf);
    xa.size = 2;
    SHOW(syscall(GETXATTRAT, AT_FDCWD, "f", 0, "user.a", &xa, sizeof xa)),
        SHOW(syscall(GETXATTRAT, AT_FDCWD, "f", 0, "user.c", &xa, sizeof xa));
    SHOW(syscall(GETXATTRAT, AT_FDCWD, "l", AT_SYMLINK_NOFOLLOW, "user.a", &xa, sizeof xa));
    SHOW(syscall(LISTXATTRAT, AT_FDCWD, "f", 0, buf, sizeof buf) >= 14 && memmem(buf, 64, "user.b", 7)),
        SHOW(syscall(LISTXATTRAT, AT_FDCWD, "f", 0, (void *)8, 64));
    SHOW(syscall(REMOVEXATTRAT, AT_FDCWD, "f", 0, "user.a")),
        SHOW(syscall(REMOVEXATTRAT, AT_FDCWD, "f", 0, "user.a")),
        SHOW(syscall(REMOVEXATTRAT, AT_FDCWD, "f", 0x4000000, "user.b"));

    struct {
        uint64_t xflags;
        uint32_t extsize, nextents, projid, cowextsize;
    } fa = {0};
    TRY(syscall(FILE_GETATTR, AT_FDCWD, "f", &fa, sizeof fa, 0)),
        TRY(syscall(FILE_GETATTR, AT_FDCWD, "f", &fa, 4, 0)),
        TRY(syscall(FILE_GETATTR, AT_FDCWD, "f", (void *)8, sizeof fa, 0));
    TRY(syscall(FILE_SETATTR, AT_FDCWD, "f", &fa, sizeof fa, 0)),
        TRY(syscall(FILE_SETATTR, AT_FDCWD, "f", &fa, sizeof fa, 1)),
        TRY(syscall(FILE_SETATTR, AT_FDCWD, "none", &fa, sizeof fa, 0));

    struct statx sx;
    struct {
        uint32_t size, spare;
        uint64_t id, param, ns;
    } req = {24, 0, 0, 0x2 | 0x8 | 0x10, 0};
    MUST(syscall(SYS_statx, AT_FDCWD, "/", 0, 0x4000 /* STATX_MNT_ID_UNIQUE */, &sx));
    req.id = sx.stx_mnt_id;
    memset(buf, 0, sizeof buf);
    if (SHOW(syscall(STATMOUNT, &req, buf, sizeof buf, 0)) == 0) {
        uint32_t *at = (uint32_t *)buf, root = at[16], point = at[17];
        say("mount point %s, root begins with %c", buf + 512 + point, (buf + 512 + root)[0]);
    }
    SHOW(syscall(STATMOUNT, &req, buf, 16, 0)), SHOW(syscall(STATMOUNT, &req, buf, sizeof buf, 1)),
        SHOW(syscall(STATMOUNT, (void *)8, buf, sizeof buf, 0));
    SHOW(syscall(STATMOUNT, &req, (void *)8, 512, 0));
    req.id = -1ULL, req.param = 0;
    SHOW(syscall(LISTMOUNT, &req, buf, 64, 0) > 0), SHOW(syscall(LISTMOUNT, &req, (void *)8, 64, 0)),
        SHOW(syscall(LISTMOUNT, &req, buf, 64, 8));

    struct {
        struct file_handle h;
        char more[128];
    } h = {.h.handle_bytes = 0};
    int mount;
    SHOW(name_to_handle_at(AT_FDCWD, "f", &h.h, &mount, 0));
    EXPECT(h.h.handle_bytes > 0 || errno == EOPNOTSUPP);
    h.h.handle_bytes = 128;
    TRY(name_to_handle_at(AT_FDCWD, "f", &h.h, &mount, 0)),
        SHOW(name_to_handle_at(AT_FDCWD, "none", &h.h, &mount, 0));
    SHOW(name_to_handle_at(AT_FDCWD, "f", (void *)8, &mount, 0)),
        TRY(open_by_handle_at(AT_FDCWD, &h.h, O_RDONLY)), SHOW(open_by_handle_at(900, &h.h, O_RDONLY));
    return wrong;
}
