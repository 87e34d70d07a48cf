// Extended attributes user.*: set, get, list, remove, flags, sizes: xattr(7).
#include "guest.h"
#include <sys/xattr.h>
int main(int argc, char **argv) {
    char b[100] = "";
    int fd = file_with("f", "x");
    if (setxattr("f", "user.one", "value", 5, 0) < 0 && errno == EOPNOTSUPP)
        return say("no user attributes on this file system"), 0;
    SHOW(getxattr("f", "user.one", b, 100)), say("%s", b);
    SHOW(getxattr("f", "user.one", NULL, 0));
    TRY(getxattr("f", "user.one", b, 2));
    TRY(setxattr("f", "user.one", "x", 1, XATTR_CREATE));
    TRY(setxattr("f", "user.two", "x", 1, XATTR_REPLACE));
    TRY(fsetxattr(fd, "user.two", "", 0, XATTR_CREATE));
    ssize_t n = flistxattr(fd, b, 100);
    int users = 0;
    for (char *p = b; p < b + n; p += strlen(p) + 1)
        users += !strncmp(p, "user.", 5);
    say("listed %d", users);
    TRY(removexattr("f", "user.one"));
    TRY(fremovexattr(fd, "user.one"));
    TRY(setxattr("f", "nonsense.x", "x", 1, 0));
    symlink("f", "l");
    TRY(lsetxattr("l", "user.x", "x", 1, 0));
    SHOW(lgetxattr("l", "user.two", b, 100));
    return 0;
}
