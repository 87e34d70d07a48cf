// The old forms of calls that libraries no longer make: creat(2), utime(2), futimesat(2), getdents(2),
// ustat(2), inotify_init(2) and others.
#include "guest.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <utime.h>
struct old_dirent {
    unsigned long ino, off;
    unsigned short reclen;
    char name[];
};
static int flags_of(int fd) { return fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK); }
int main(int argc, char **argv) {
    struct stat st;
    umask(022);
    int fd = (int)MUST(syscall(SYS_creat, "f", 0666));
    SHOW(flags_of(fd)), SHOW(fcntl(fd, F_GETFD));
    MUST(fstat(fd, &st));
    say("mode %o size %ld", st.st_mode & 07777, (long)st.st_size);
    SHOW(write(fd, "0123456789", 10));
    int again = (int)MUST(syscall(SYS_creat, "f", 0600));
    MUST(fstat(fd, &st));
    say("created again: mode %o size %ld", st.st_mode & 07777, (long)st.st_size);
    SHOW(syscall(SYS_creat, ".", 0600)), SHOW(syscall(SYS_creat, "none/f", 0600));
    SHOW(syscall(SYS_creat, (char *)8, 0600));
    close(again);

    struct utimbuf t = {1000, 2000};
    SHOW(syscall(SYS_utime, "f", &t));
    MUST(stat("f", &st));
    say("utime %ld %ld", (long)st.st_atime, (long)st.st_mtime);
    SHOW(syscall(SYS_utime, "f", NULL)), SHOW(syscall(SYS_utime, "none", NULL));
    SHOW(syscall(SYS_utime, "f", (void *)8));
    struct timeval tv[2] = {{3, 400000}, {5, 600000}};
    SHOW(syscall(SYS_utimes, "f", tv));
    MUST(stat("f", &st));
    say("utimes %ld.%ld %ld.%ld", (long)st.st_atime, st.st_atim.tv_nsec, (long)st.st_mtime,
        st.st_mtim.tv_nsec);
    tv[1].tv_usec = 1000000;
    SHOW(syscall(SYS_utimes, "f", tv));
    tv[1].tv_usec = 7;
    SHOW(syscall(SYS_futimesat, AT_FDCWD, "f", tv));
    MUST(stat("f", &st));
    say("futimesat %ld.%ld", (long)st.st_mtime, st.st_mtim.tv_nsec);
    SHOW(syscall(SYS_futimesat, fd, NULL, NULL)), SHOW(syscall(SYS_futimesat, 900, "f", NULL));

    SHOW(fchown(fd, 5, 6)), SHOW(syscall(SYS_fchownat, AT_FDCWD, "f", 7, -1, 0));
    MUST(stat("f", &st));
    say("owner %d %d", st.st_uid, st.st_gid);
    SHOW(syscall(SYS_fchownat, fd, "", 0, 0, AT_EMPTY_PATH)), SHOW(syscall(SYS_fchownat, fd, "", 0, 0, 0));
    SHOW(syscall(SYS_fchownat, AT_FDCWD, "f", 0, 0, 0x40000));

    SHOW(syscall(SYS_mknodat, AT_FDCWD, "p", S_IFIFO | 0640, 0)),
        SHOW(syscall(SYS_mknodat, AT_FDCWD, "p", S_IFIFO, 0));
    SHOW(syscall(SYS_mknodat, AT_FDCWD, "r", 0600, 0)), SHOW(syscall(SYS_mknodat, AT_FDCWD, "x", S_IFDIR, 0));
    MUST(stat("p", &st));
    say("fifo %d mode %o", S_ISFIFO(st.st_mode), st.st_mode & 07777);

    int dir = (int)MUST(open(".", O_RDONLY | O_DIRECTORY)), names = 0, types = 0;
    char buf[1024];
    for (long n; (n = syscall(SYS_getdents, dir, buf, sizeof buf)) > 0;)
        for (long at = 0; at < n;) {
            struct old_dirent *d = (struct old_dirent *)(buf + at);
            names += strcmp(d->name, ".") && strcmp(d->name, "..");
            types += buf[at + d->reclen - 1] == DT_FIFO && !strcmp(d->name, "p");
            at += d->reclen;
        }
    say("%d names, %d fifo", names, types);
    SHOW(lseek(dir, 0, SEEK_SET)), SHOW(syscall(SYS_getdents, dir, buf, 10)),
        SHOW(syscall(SYS_getdents, fd, buf, 100));
    SHOW(syscall(SYS_getdents, dir, (void *)8, 100));

    struct {
        int tfree;
        long tinode;
        char name[6], pack[6];
    } u;
    MUST(stat(".", &st));
    TRY(syscall(SYS_ustat, (unsigned)st.st_dev, &u)), SHOW(syscall(SYS_ustat, 0xfffff, &u));
    TRY(syscall(SYS_ustat, (unsigned)st.st_dev, (void *)8));

    int i = (int)MUST(syscall(SYS_inotify_init));
    SHOW(fcntl(i, F_GETFD)), SHOW(flags_of(i)), SHOW(inotify_add_watch(i, ".", IN_CREATE));
    close((int)MUST(creat("new", 0600)));
    struct inotify_event *e = (struct inotify_event *)buf;
    EXPECT(read(i, buf, sizeof buf) > 0 && e->mask == IN_CREATE && !strcmp(e->name, "new"));
    int ev = (int)MUST(syscall(SYS_eventfd, 7));
    unsigned long v = 0;
    SHOW(flags_of(ev)), SHOW(read(ev, &v, 8)), SHOW((long)v);
    SHOW(syscall(SYS_epoll_create, 0)), EXPECT(syscall(SYS_epoll_create, 1) > 0);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigprocmask(SIG_BLOCK, &set, NULL);
    int s = (int)MUST(syscall(SYS_signalfd, -1, &set, 8));
    kill(getpid(), SIGUSR1);
    struct signalfd_siginfo info;
    SHOW(flags_of(s)), SHOW(read(s, &info, sizeof info)), SHOW(info.ssi_signo);

    SHOW(syncfs(fd)), SHOW(syncfs(900)), SHOW(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
    SHOW(sync_file_range(fd, 0, 0, 64)), SHOW(sync_file_range(i, 0, 0, 0));
    SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)), SHOW(posix_fadvise(fd, 0, 0, 77));
    SHOW(syscall(SYS_readahead, open("f", O_RDONLY), 0L, 4096L)), SHOW(syscall(SYS_readahead, s, 0L, 4096L));
    SHOW(syscall(SYS_quotactl, 0x80000700, "none", 0, buf)),
        SHOW(syscall(SYS_quotactl_fd, 900, 0x80000700, 0, buf));
    SHOW(syscall(SYS_sysfs, 3) > 10), SHOW(syscall(SYS_sysfs, 1, "proc") >= 0),
        SHOW(syscall(SYS_sysfs, 1, "nofs"));
    SHOW(syscall(SYS_sysfs, 2, 0, buf)), SHOW(syscall(SYS_sysfs, 2, 100000, buf)),
        SHOW(syscall(SYS_sysfs, 9));
    return wrong;
}
