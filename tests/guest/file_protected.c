// Links and files of others in a sticky directory of all, a mount without links: fs.protected_symlinks,
// protected_regular, protected_fifos (proc_sys_fs(5)), MS_NOSYMFOLLOW (mount(2)). krun: host
#include "guest.h"
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif
static const char *const knobs[] = {"symlinks", "regular", "fifos"};
static char was[COUNT(knobs)];
static void knob(int i, char value, char *old) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/fs/protected_%s", knobs[i]);
    int fd = MUST(open(path, O_RDWR));
    if (old)
        MUST(read(fd, old, 1));
    MUST(pwrite(fd, &value, 1, 0)), close(fd);
}
static void knobs_are(char value) {
    for (unsigned i = 0; i < COUNT(knobs); i++)
        knob(i, i == 0 && value == '2' ? '1' : value, NULL); // the first one has two values
}
static void restore(void) {
    for (unsigned i = 0; i < COUNT(knobs); i++)
        knob(i, was[i], NULL);
}
static void sock(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    strcpy(a.sun_path, path), TRY(bind(fd, (struct sockaddr *)&a, sizeof a)), close(fd), unlink(path);
}
static void links(void) {
    struct stat st;
    TRY(open("s/link", O_RDONLY)), TRY(open("s/link", O_PATH)), TRY(open("s/link", O_WRONLY | O_CREAT, 0600));
    TRY(open("s/dangling", O_WRONLY | O_CREAT, 0600)), unlink("made");
    TRY(stat("s/link", &st)), TRY(lstat("s/link", &st)), TRY(access("s/link", R_OK)),
        TRY(chmod("s/link", 0644));
    TRY(truncate("s/link", 0)), TRY(open("s/roots", O_RDONLY)), TRY(open("outer", O_RDONLY));
    TRY(stat("s/up", &st)), TRY(stat("s/up/", &st)), TRY(stat("s/up/.", &st)), TRY(stat("outerdir/", &st));
    TRY(open("s/up/target", O_RDONLY)), TRY(mkdir("s/up/new", 0700)), TRY(rmdir("s/up/new"));
    TRY(chdir("s/up")), TRY(rename("s/up/target", "s/up/x")), TRY(rename("x", "target")), sock("s/up/socket");
    TRY(open("/proc/self/cwd/s/link", O_RDONLY)), TRY(open("/proc/self/cwd/s/roots", O_RDONLY));
    TRY(stat("/proc/self/cwd/outerdir/", &st)), TRY(stat("/proc/self/cwd/s/up/.", &st));
    TRY(open("s/magic", O_RDONLY)), TRY(open("/proc/self/cwd/s/magic", O_RDONLY));
    char text[8];
    SHOW(readlink("s/link", text, sizeof text));
    reap("exec", CHILD(TRY(execl("s/exec", "x", (char *)NULL))));
}
static void files(void) {
    static const char *const names[] = {"s/file", "s/own",  "s/fifo",
                                        "g/file", "g/fifo", "/proc/self/cwd/s/file"};
    for (unsigned i = 0; i < COUNT(names); i++) {
        say("%s", names[i]);
        TRY(open(names[i], O_RDWR | O_CREAT | O_NONBLOCK, 0600));
        TRY(open(names[i], O_RDWR | O_CREAT | O_TRUNC | O_NONBLOCK, 0600));
        TRY(open(names[i], O_RDWR | O_CREAT | O_EXCL, 0600)), TRY(open(names[i], O_RDWR | O_NONBLOCK));
    }
    TRY(creat("s/file", 0600));
}
// The same with flags that bind the walk: RESOLVE_NO_XDEV 1, NO_MAGICLINKS 2, NO_SYMLINKS 4, BENEATH 8,
// IN_ROOT 16.
static void bound(void) {
    static const char *const names[] = {"s/file", "s/own",  "s/fifo",   "g/file",
                                        "g/fifo", "s/near", "outerfile"};
    for (unsigned i = 0; i < COUNT(names); i++)
        for (unsigned resolve = 1; resolve <= 16; resolve *= 2) {
            struct open_how how = {.flags = O_RDWR | O_CREAT | O_NONBLOCK, .mode = 0600, .resolve = resolve};
            long fd = syscall(SYS_openat2, AT_FDCWD, names[i], &how, sizeof how);
            say("%s %u: %s", names[i], resolve, fd < 0 ? errno_name(errno) : "ok"), close((int)fd);
        }
}
static void *idle(void *a) {
    pause();
    return a;
}
// Another user, for whom there is no room for one more thread.
static void crowded(void) {
    static const struct rlimit none;
    MUST(setresuid(1001, 1001, 1001)), thread(idle, NULL), MUST(setrlimit(RLIMIT_NPROC, &none));
    TRY(open("s/file", O_RDWR | O_CREAT, 0600)), TRY(open("s/fifo", O_RDWR | O_CREAT, 0600));
}
// A user namespace in which neither the file's owner nor the directory's has a number: both are shown as
// 65534.
static void nameless(void) {
    int born[2], mapped[2];
    char path[64], c = 0;
    MUST(pipe(born)), MUST(pipe(mapped));
    pid_t pid = CHILD({
        MUST(setresuid(1001, 1001, 1001)), MUST(unshare(CLONE_NEWUSER));
        MUST(write(born[1], &c, 1)), MUST(read(mapped[0], &c, 1)), thread(idle, NULL);
        TRY(open("s/file", O_RDWR | O_CREAT, 0600)), TRY(open("s/fifo", O_RDWR | O_CREAT, 0600));
    });
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    MUST(read(born[0], &c, 1));
    int map = MUST(open(path, O_WRONLY));
    MUST(write(map, "0 1001 1", 8)), MUST(write(mapped[1], &c, 1)), close(map);
    reap("nameless", pid);
}
// Another user's dangling link comes and goes while openat2(2) with O_CREAT looks: no file is made where it
// leads.
static void swapped(void) {
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600};
    pid_t other = CHILD({
        MUST(setresuid(1000, 1000, 1000));
        for (;;)
            symlink("../swapped", "s/swap"), unlink("s/swap");
    });
    pid_t pid = CHILD({
        thread(idle, NULL);
        for (int i = 0; i < 4000; i++) {
            how.resolve = i & 1 ? RESOLVE_BENEATH : 0;
            close((int)syscall(SYS_openat2, AT_FDCWD, "s/swap", &how, sizeof how));
            unlink("s/swap");
        }
    });
    reap("swapped", pid), kill(other, SIGKILL), waitpid(other, NULL, 0), unlink("s/swap");
    TRY(unlink("swapped"));
}
// Another user's file moves between a directory of all and one of its own: what O_CREAT has found in the
// first is not opened.
static void moved(void) {
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0600, .resolve = RESOLVE_BENEATH};
    MUST(mkdir("o", 0700)), MUST(chown("o", 1000, 1000)), MUST(chmod("o", 0777));
    pid_t other = CHILD({
        MUST(setresuid(1000, 1000, 1000)), umask(0), close(open("o/moved", O_CREAT, 0666));
        for (;;)
            rename("o/moved", "s/moved"), rename("s/moved", "o/moved");
    });
    pid_t pid = CHILD({
        int theirs = 0;
        struct stat st;
        thread(idle, NULL);
        for (int i = 0; i < 4000; i++) {
            int fd = (int)syscall(SYS_openat2, AT_FDCWD, "s/moved", &how, sizeof how);
            theirs += fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 1000;
            if (fd >= 0 && st.st_uid == 0)
                unlink("s/moved");
            close(fd);
        }
        say("%s", theirs ? "another's file was opened" : "refused");
    });
    reap("moved", pid), kill(other, SIGKILL), waitpid(other, NULL, 0);
    unlink("s/moved"), unlink("o/moved"), rmdir("o");
}
// With few free numbers: only whether a link or a file opens, because the errno may be EMFILE.
static void few(void) {
    static const char *const names[] = {"s/link", "s/exec", "/proc/self/cwd/s/link", "/proc/self/cwd/s/file"};
    const struct rlimit limit = {64, 64};
    int fds[64];
    MUST(close_range(3, ~0U, 0)), MUST(setrlimit(RLIMIT_NOFILE, &limit));
    for (unsigned i = 0; i < COUNT(names); i++)
        for (int free = 0; free < 6; free++) {
            int n = 0;
            while ((fds[n] = dup(1)) >= 0)
                n++;
            for (int k = 0; k < free; k++)
                close(fds[--n]);
            int fd = open(names[i], O_RDWR | (i == 3 ? O_CREAT : 0), 0600);
            close(fd);
            while (n)
                close(fds[--n]);
            say("%s, %d free: %s", names[i], free, fd < 0 ? "refused" : "opened");
        }
}
static void *both(void *a) { return links(), files(), bound(), a; }
static void give(const char *directory) {
    char path[32];
    snprintf(path, sizeof path, "%s/file", directory);
    MUST(close(open(path, O_CREAT | O_WRONLY, 0666))), MUST(chmod(path, 0666)), MUST(chown(path, 1000, 1000));
    snprintf(path, sizeof path, "%s/fifo", directory);
    MUST(mkfifo(path, 0666)), MUST(chmod(path, 0666)), MUST(chown(path, 1000, 1000));
}
int main(void) {
    static const char *const theirs[][2] = {{"../target", "s/link"},
                                            {"../made", "s/dangling"},
                                            {"..", "s/up"},
                                            {"/bin/true", "s/exec"},
                                            {"/proc/self/cwd/target", "s/magic"}};
    close(file_with("target", "x")), MUST(mkdir("s", 0700)), MUST(mkdir("g", 0700)), MUST(chmod(".", 0755));
    for (unsigned i = 0; i < COUNT(theirs); i++)
        MUST(symlink(theirs[i][0], theirs[i][1])), MUST(lchown(theirs[i][1], 1000, 1000));
    MUST(symlink("../target", "s/roots")), MUST(symlink("s/link", "outer")),
        MUST(symlink("s/up", "outerdir"));
    MUST(symlink("file", "s/near")), MUST(symlink("s/file", "outerfile"));
    give("s"), give("g"), close(file_with("s/own", "x"));
    MUST(chmod("s", 01777)), MUST(chmod("g", 01770));
    // The values are the host's: one run of this program at a time.
    MUST(flock(MUST(open("/proc/sys/fs/protected_symlinks", O_RDONLY)), LOCK_EX));
    for (unsigned i = 0; i < COUNT(knobs); i++)
        knob(i, '1', &was[i]);
    atexit(restore);
    for (char value = '0'; value < '3'; value++) {
        say("%c", value), knobs_are(value);
        both(NULL), join(thread(both, NULL));
        if (value > '0') // the monitor refuses, too, where it has no room to learn that nothing is protected
            reap("crowded", CHILD(crowded())), reap("few", CHILD(few())), nameless();
        if (value == '1')
            swapped(), moved();
    }
    knobs_are('0');
    MUST(unshare(CLONE_NEWNS)), MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    MUST(mkdir("m", 0755)), MUST(mount("m", "m", "tmpfs", MS_NOSYMFOLLOW, NULL));
    MUST(close(open("m/f", O_CREAT | O_WRONLY, 0600))), MUST(symlink("f", "m/link")),
        MUST(symlink(".", "m/here"));
    TRY(open("m/f", O_RDONLY)), TRY(open("m/link", O_RDONLY)), TRY(open("m/here/f", O_RDONLY)),
        TRY(chdir("m/here"));
    TRY(open("/proc/self/cwd/m/link", O_RDONLY)), TRY(open("/proc/self/cwd/m/here/f", O_RDONLY));
    return wrong;
}
