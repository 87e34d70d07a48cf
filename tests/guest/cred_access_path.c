// access(2) asks for the real ids on each directory of the path, faccessat(2) with AT_EACCESS for the
// effective ones. krun: static
#include "guest.h"
#include <sys/fsuid.h>
static const char *const paths[] = {"shut/file", "shut/open/file", "shut/open/../open/file",
                                    "open/file", "link",           "shut/none",
                                    "shut/open", "shut",           "shut/open/file/x"};
static void all(const char *who) {
    say("%s", who);
    for (unsigned i = 0; i < COUNT(paths); i++) {
        say("%s", paths[i]);
        TRY(access(paths[i], F_OK)), TRY(access(paths[i], R_OK));
        TRY(syscall(SYS_faccessat2, AT_FDCWD, paths[i], R_OK, AT_EACCESS));
        TRY(syscall(SYS_faccessat2, AT_FDCWD, paths[i], F_OK, AT_SYMLINK_NOFOLLOW));
    }
    int dir = open("shut", O_RDONLY | O_DIRECTORY);
    if (dir >= 0)
        TRY(faccessat(dir, "file", F_OK, 0)), TRY(faccessat(dir, "open/file", F_OK, 0)), close(dir);
    TRY(access("/proc/self/cwd/shut/file", F_OK)), TRY(access("/proc/self/cwd/open/file", F_OK));
}
int main(void) {
    if (getuid())
        return say("not root"), 0;
    MUST(chmod(".", 0755)), MUST(mkdir("shut", 0700)), MUST(mkdir("shut/open", 0755)),
        MUST(mkdir("open", 0755));
    close(MUST(open("shut/file", O_CREAT | O_WRONLY, 0644))),
        close(MUST(open("open/file", O_CREAT | O_WRONLY, 0644)));
    close(MUST(open("shut/open/file", O_CREAT | O_WRONLY, 0644))), MUST(symlink("shut/open/file", "link"));
    all("root");
    reap("real user", CHILD(MUST(setresgid(1000, 0, 0)), MUST(setresuid(1000, 0, 0)), all("1000 0")));
    reap("user",
         CHILD(MUST(setresgid(1000, 1000, 1000)), MUST(setresuid(1000, 1000, 1000)), all("1000 1000")));
    return wrong;
}
