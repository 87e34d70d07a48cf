// Mounts in a mount namespace of one's own: bind, move, the new interface, through links and with threads:
// mount(2). krun: host
#include "guest.h"
#include <sys/mount.h>
#include <sys/xattr.h>
#define AT AT_FDCWD
struct mattr {
    uint64_t set, clr, prop, ns;
};
static void shows(const char *path) {
    char *text = slurp(path);
    say("%s: %s", path, text ? text : errno_name(errno));
    free(text);
}
static void binds(void) {
    TRY(mount("a", "b", NULL, MS_BIND, NULL)), shows("b/f");
    TRY(mount("link", "c", NULL, MS_BIND, NULL)), shows("c/f"); // the link is followed
    TRY(mount("none", "b", NULL, MS_BIND, NULL)), TRY(mount("a", "none", NULL, MS_BIND, NULL)),
        TRY(mount("a/f", "b", NULL, MS_BIND, NULL));
    TRY(mount(NULL, "b", NULL, MS_BIND, NULL)), TRY(mount((void *)16, "b", NULL, MS_BIND, NULL)),
        TRY(mount("a", (void *)16, NULL, MS_BIND, NULL));
    TRY(mount("c", "d", NULL, MS_MOVE, NULL)), shows("d/f"), shows("c/f");
    TRY(mount("a", "d", NULL, MS_MOVE, NULL)); // no mount
    TRY(mount("x", "b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL)),
        TRY(open("b/new", O_CREAT | O_WRONLY, 0600));
    TRY(mount("none", "b", NULL, MS_PRIVATE, NULL)),
        TRY(mount("none", "b", NULL, MS_PRIVATE | MS_MOVE, NULL));
    int fd = MUST(open("a", O_PATH));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    TRY(mount(path, "c", NULL, MS_BIND, NULL)), shows("c/f"), TRY(umount2("c", 0));
    snprintf(path, sizeof path, "/proc/self/fd/%d/f", fd);
    TRY(mount(path, "file", NULL, MS_BIND, NULL)), shows("file"), TRY(umount2("file", 0));
    TRY(umount2("d", 0)), TRY(umount2("b", 0)), TRY(umount2("b", 0)), TRY(umount2("none", 0));
    TRY(mount("t", "b", "tmpfs", 0, "size=1m")), TRY(mount("t", "b", NULL, MS_REMOUNT, "size=2m")),
        TRY(umount2("b", 0));
    close(fd);
}
static void anew(void) {
    int tree = MUST(syscall(428, AT, "a", 1 /* OPEN_TREE_CLONE */));
    TRY(syscall(429, tree, "", AT, "b", 4)), shows("b/f");
    struct mattr ro = {1, 0, 0, 0};
    TRY(syscall(442, AT, "b", 0, &ro, sizeof ro)), TRY(open("b/new", O_CREAT | O_WRONLY, 0600));
    TRY(syscall(442, AT, "link", 0x100, &ro, sizeof ro)), TRY(syscall(442, AT, "a", 0, &ro, sizeof ro)),
        TRY(syscall(442, AT, "none", 0, &ro, sizeof ro));
    TRY(syscall(429, AT, "b", AT, "c", 0)), shows("c/f"), shows("b/f");
    TRY(syscall(429, AT, "link", AT, "b", 0)), TRY(syscall(429, AT, "none", AT, "b", 0)),
        TRY(syscall(429, AT, "", AT, "b", 4));
    int dir = MUST(open("c", O_PATH));
    TRY(syscall(442, dir, "", AT_EMPTY_PATH, &ro, sizeof ro));
    int fs = MUST(syscall(430, "tmpfs", 0));
    TRY(syscall(431, fs, 6, NULL, NULL, 0));
    int mnt = MUST(syscall(432, fs, 0, 0));
    TRY(syscall(429, mnt, "", AT, "d", 4));
    TRY(syscall(433, AT, "d", 0)), TRY(syscall(433, AT, "a", 0)), TRY(syscall(433, AT, "d", 0x80));
    close(mnt), close(fs), close(tree), close(dir);
    TRY(umount2("c", 0)), TRY(umount2("d", MNT_DETACH));
}
static void others(void) {
    TRY(setxattr("link/f", "user.krun", "value", 5, 0)),
        TRY(setxattr("link/f", "user.krun", "value", 5, XATTR_CREATE)),
        TRY(setxattr("a/f", "user.krun", "value", 1 << 20, 0));
    char v[16] = "";
    say("%zd %s", getxattr("a/f", "user.krun", v, sizeof v), v);
    TRY(setxattr("a/f", "user.", "v", 1, 0)), TRY(setxattr("a/f", (void *)16, "v", 1, 0)),
        TRY(setxattr("a/f", "user.x", (void *)16, 1, 0)), TRY(setxattr("none", "user.x", "v", 1, 0));
    TRY(removexattr("link/f", "user.krun")), TRY(removexattr("a/f", "user.krun"));
    MUST(symlink("a/f", "to"));
    TRY(linkat(AT, "to", AT, "hard", AT_SYMLINK_FOLLOW)), TRY(linkat(AT, "to", AT, "soft", 0));
    struct stat one, two;
    MUST(stat("a/f", &one)), MUST(stat("hard", &two)), say("the same %d", one.st_ino == two.st_ino);
    MUST(lstat("soft", &two)), say("a link %d", S_ISLNK(two.st_mode));
    TRY(linkat(AT, "none", AT, "x", AT_SYMLINK_FOLLOW)), TRY(linkat(AT, "to", AT, "hard", AT_SYMLINK_FOLLOW)),
        TRY(linkat(AT, "to", AT, "x", 1));
    int fd = MUST(open("a/f", O_RDONLY));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    TRY(linkat(AT, path, AT, "by-number", AT_SYMLINK_FOLLOW)), TRY(setxattr(path, "user.krun", "v", 1, 0)),
        TRY(removexattr(path, "user.krun"));
    struct {
        unsigned bytes;
        int type;
        char h[128];
    } h = {128, 0, ""};
    int id;
    TRY(name_to_handle_at(AT, "to", (struct file_handle *)&h, &id, AT_SYMLINK_FOLLOW)), h.bytes = 128;
    TRY(name_to_handle_at(fd, "", (struct file_handle *)&h, &id, AT_EMPTY_PATH)), h.bytes = 0;
    TRY(name_to_handle_at(AT, "to", (struct file_handle *)&h, &id, 0)),
        TRY(name_to_handle_at(AT, "none", (struct file_handle *)&h, &id, 0));
    TRY(syscall(SYS_swapon, "none", 0)), TRY(syscall(SYS_acct, "a"));
    close(fd), unlink("to"), unlink("hard"), unlink("soft"), unlink("by-number");
}
static void *idle(void *a) {
    for (;;)
        pause();
}
int main(int argc, char **argv) {
    if (unshare(CLONE_NEWNS))
        return say("no mount namespace of our own"), 0;
    MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mkdir("a", 0755)), MUST(mkdir("b", 0755)), MUST(mkdir("c", 0755)), MUST(mkdir("d", 0755)),
        MUST(symlink("a", "link"));
    close(file_with("a/f", "contents")), close(file_with("file", "other"));
    binds(), anew(), others();
    thread(idle, NULL);
    say("with a thread:");
    binds(), anew(), others();
    say("working directory: %s", access("a/f", F_OK) ? "LOST" : "kept");
    return wrong;
}
