// The forms of the attribute calls by path, by link and by descriptor: getxattr(2), listxattr(2),
// removexattr(2); mq_getsetattr(2).
#include "guest.h"
#include <mqueue.h>
#include <sys/xattr.h>
int main(int argc, char **argv) {
    char buf[64] = "";
    int fd = file_with("f", "x");
    MUST(symlink("f", "l"));
    SHOW(setxattr("l", "user.one", "1", 1, 0)), SHOW(fsetxattr(fd, "user.two", "22", 2, XATTR_CREATE)),
        SHOW(lsetxattr("l", "user.x", "3", 1, 0)), SHOW(lsetxattr("f", "user.three", "333", 3, 0));
    SHOW(getxattr("l", "user.two", buf, sizeof buf)), SHOW(lgetxattr("l", "user.two", buf, sizeof buf)),
        SHOW(lgetxattr("f", "user.three", buf, sizeof buf)), say("%.3s", buf);
    SHOW(fgetxattr(fd, "user.one", buf, sizeof buf)), SHOW(fgetxattr(fd, "user.two", buf, 1)),
        SHOW(fgetxattr(fd, "user.two", NULL, 0)), SHOW(fgetxattr(900, "user.two", buf, 9)),
        SHOW(fgetxattr(fd, "user.two", (void *)8, 9)), SHOW(fgetxattr(fd, (char *)8, buf, 9));
    for (int form = 0; form < 3; form++) {
        long n = form == 0   ? listxattr("l", buf, sizeof buf)
                 : form == 1 ? llistxattr("f", buf, sizeof buf)
                             : flistxattr(fd, buf, sizeof buf);
        int ours = 0;
        for (long at = 0; at < n; at += (long)strlen(buf + at) + 1)
            ours += !strncmp(buf + at, "user.", 5);
        say("form %d: %d", form, ours);
    }
    SHOW(llistxattr("l", buf, 0) >= 0), SHOW(listxattr("f", buf, 3)), SHOW(flistxattr(fd, (void *)8, 64)),
        SHOW(listxattr("none", buf, 64));
    SHOW(removexattr("l", "user.one")), SHOW(lremovexattr("f", "user.three")),
        SHOW(lremovexattr("l", "user.two")), SHOW(fremovexattr(fd, "user.two")),
        SHOW(fremovexattr(fd, "user.two"));
    struct mq_attr a = {.mq_maxmsg = 3, .mq_msgsize = 8}, old = {0};
    mqd_t q = mq_open("/krun-guest-attr", O_RDWR | O_CREAT | O_EXCL, 0600, &a);
    if (q >= 0) {
        a.mq_flags = O_NONBLOCK;
        SHOW(mq_setattr(q, &a, &old)), SHOW(old.mq_maxmsg), SHOW(mq_getattr(q, &old)),
            SHOW(old.mq_flags == O_NONBLOCK);
        struct timespec past = {1, 0};
        SHOW(mq_timedreceive(q, buf, 8, NULL, &past)), SHOW(mq_timedsend(q, "m", 1, 2, &past)),
            SHOW(mq_timedreceive(q, buf, 8, NULL, &past)), SHOW(mq_timedsend(q, "m", 9, 2, &past));
        a.mq_flags = 0;
        SHOW(mq_setattr(q, &a, NULL)), SHOW(mq_timedreceive(q, buf, 8, NULL, &past)),
            SHOW(syscall(SYS_mq_getsetattr, q, (void *)8, NULL)), SHOW(mq_unlink("/krun-guest-attr"));
    } else {
        say("mq_open: %s", errno_name(errno));
    }
    return wrong;
}
