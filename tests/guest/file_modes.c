// chmod, chown, access and faccessat2 with real and effective ids: chmod(2), access(2).
#include "guest.h"
static void mode(const char *f) {
    struct stat s;
    stat(f, &s), say("%s %o", f, s.st_mode & 07777);
}
int main(int argc, char **argv) {
    int fd = file_with("f", "x");
    TRY(chmod("f", 0640)), mode("f");
    TRY(fchmod(fd, 04751)), mode("f");
    TRY(fchmodat(AT_FDCWD, "f", 0600, AT_SYMLINK_NOFOLLOW) == 0 || errno == EOPNOTSUPP ? 0 : -1);
    if (getuid() == 0) {
        chmod(".", 0755), chmod("f", 0640);
        TRY(chown("f", 1000, 1001));
        struct stat s;
        stat("f", &s), say("owner %u:%u", s.st_uid, s.st_gid);
        TRY(lchown("f", -1, 1002));
        chmod("f", 04755), chown("f", 1000, 1000), mode("f");
        chmod("f", 0440);
        reap("other user", CHILD({
                 setresgid(2000, 2000, 2000), setresuid(2000, 2000, 2000);
                 TRY(open("f", O_RDONLY));
                 TRY(chmod("f", 0777));
                 TRY(access("f", R_OK));
                 TRY(access("f", F_OK));
             }));
        reap("effective user", CHILD({
                 setresuid(0, 1000, 0);
                 TRY(access("f", W_OK)); // real id: root
                 TRY(faccessat(AT_FDCWD, "f", W_OK, AT_EACCESS));
                 TRY(syscall(439, AT_FDCWD, "f", R_OK, AT_EACCESS));
             }));
    }
    TRY(access("f", 16));
    TRY(syscall(439, AT_FDCWD, "f", R_OK, 0x8000));
    TRY(chmod("missing", 0600));
    return 0;
}
