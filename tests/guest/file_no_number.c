// Calls that take a path and make no descriptor work when every number is in use. One thread, then two.
#include "guest.h"
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <utime.h>
static void *wait_for_end(void *fd) {
    char c;
    if (read((int)(long)fd, &c, 1) < 0)
        perror("read");
    return NULL;
}
static void *unreadable; // mapped without rights
static void calls(void) {
    struct stat st;
    struct statfs fs;
    char buf[64];
    EXPECT(stat("d/file", &st) == 0 && st.st_size == 3);
    EXPECT(lstat("d/link", &st) == 0 && S_ISLNK(st.st_mode));
    EXPECT(stat("d/link", &st) == 0 && S_ISREG(st.st_mode));
    EXPECT(fstatat(AT_FDCWD, "d/none", &st, 0) < 0 && errno == ENOENT);
    EXPECT(access("d/file", R_OK) == 0);
    EXPECT(statfs("d/file", &fs) == 0);
    EXPECT(chmod("d/file", 0640) == 0);
    EXPECT(utime("d/file", NULL) == 0);
    EXPECT(getxattr("d/file", "user.none", buf, sizeof buf) < 0 && (errno == ENODATA || errno == EOPNOTSUPP));
    EXPECT(setxattr("d/file", "user.one", "x", 1, 0) == 0 || errno == EOPNOTSUPP);
    EXPECT(listxattr("d/file", buf, sizeof buf) >= 0);
    EXPECT(removexattr("d/file", "user.one") == 0 || errno == EOPNOTSUPP);
    EXPECT(mkdir("d/sub", 0700) == 0);
    EXPECT(mkdir("d/none/sub", 0700) < 0 && errno == ENOENT);
    EXPECT(rename("d/sub", "d/other") == 0);
    EXPECT(symlink("x", "d/other/s") == 0);
    EXPECT(link("d/file", "d/other/hard") == 0);
    EXPECT(unlink("d/other/s") == 0 && unlink("d/other/hard") == 0);
    EXPECT(rmdir("d/other") == 0);
    EXPECT(syscall(SYS_stat, "d/file", unreadable) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_lstat, "d/file", unreadable) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_newfstatat, AT_FDCWD, "d/file", unreadable, 0) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_statx, AT_FDCWD, "d/file", 0, STATX_SIZE, unreadable) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_statfs, "d/file", unreadable) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_utimensat, AT_FDCWD, "d/file", unreadable, 0) < 0 && errno == EFAULT);
    EXPECT(syscall(SYS_getxattr, "d/file", "user.none", unreadable, 64) < 0 &&
           (errno == EFAULT || errno == ENODATA || errno == EOPNOTSUPP));
    EXPECT(syscall(SYS_symlink, unreadable, "d/s") < 0 && errno == EFAULT);
}
int main(int argc, char **argv) {
    int p[2], fd = -1;
    struct rlimit limit = {64, 64};
    MUST(mkdir("d", 0755));
    close(file_with("d/file", "abc"));
    MUST(symlink("file", "d/link"));
    MUST(pipe(p));
    unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(unreadable != MAP_FAILED);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    while (dup(0) >= 0)
        fd++;
    EXPECT(errno == EMFILE && fd > 10);
    calls();
    pthread_t other = thread(wait_for_end, (void *)(long)p[0]);
    calls();
    MUST(write(p[1], "x", 1));
    join(other);
    say("done");
    return wrong;
}
