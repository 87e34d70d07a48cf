// The kernel reads the lower half of a register for an argument that it declares as int or unsigned, and all
// of it for unsigned long: junk in the upper half changes nothing, or is EINVAL (SYSCALL_DEFINEx,
// include/linux/syscalls.h).
#include "guest.h"
#include <linux/futex.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#define JUNK (1L << 32 | 1L << 47 | 1L << 63)

// 0 instead of a descriptor, which is closed.
static long shut(long fd) {
    if (fd < 0)
        return fd;
    close((int)fd);
    return 0;
}

static void files(void) {
    long r;
    SHOW(shut(r = syscall(SYS_openat, JUNK | 0xffffff9c, "/dev/null", JUNK | O_RDWR | O_CLOEXEC, JUNK)));
    SHOW(shut(syscall(SYS_openat, AT_FDCWD, "made", JUNK | O_CREAT | O_WRONLY, JUNK | 0640)));
    struct stat st;
    SHOW(syscall(SYS_newfstatat, AT_FDCWD, "made", &st, JUNK)), say("mode %o", st.st_mode & 07777);
    SHOW(syscall(SYS_faccessat, JUNK | 0xffffff9c, "made", JUNK | R_OK));
    SHOW(syscall(SYS_fchmodat, AT_FDCWD, "made", JUNK | 0600));
    SHOW(syscall(SYS_linkat, AT_FDCWD, "made", AT_FDCWD, "link", JUNK));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "made", AT_FDCWD, "link", JUNK | 1)); /* RENAME_NOREPLACE */
    SHOW(syscall(SYS_unlinkat, AT_FDCWD, "link", JUNK));
    SHOW(syscall(SYS_mknod, "fifo", JUNK | S_IFIFO | 0600, JUNK));
    int fd = (int)MUST(open("made", O_RDWR));
    SHOW(syscall(SYS_fcntl, JUNK | fd, JUNK | F_GETFD, 0)), SHOW(syscall(SYS_fcntl, fd, F_SETFD, JUNK | 1));
    SHOW(syscall(SYS_fcntl, fd, F_GETFD, 0));
    SHOW(shut(syscall(SYS_fcntl, fd, F_DUPFD, JUNK | 60)));
    SHOW(shut(syscall(SYS_dup3, fd, JUNK | 61, JUNK | O_CLOEXEC)));
    int zero = 0;
    SHOW(syscall(SYS_ioctl, fd, JUNK | FIONREAD, &zero)), SHOW(syscall(SYS_ioctl, fd, JUNK | 0x5499, &zero));
    SHOW(syscall(SYS_close_range, JUNK | 70, JUNK | 80, JUNK));
    SHOW(syscall(SYS_lseek, fd, 0, JUNK | SEEK_END));
    SHOW(shut(syscall(SYS_memfd_create, "m", JUNK)));
    SHOW(shut(syscall(SYS_inotify_init1, JUNK | O_CLOEXEC)));
    SHOW(shut(syscall(SYS_signalfd4, JUNK | 0xffffffff, &(uint64_t){0}, 8, JUNK)));
    SHOW(syscall(SYS_umount2, "made", JUNK)), SHOW(syscall(SYS_statx, AT_FDCWD, "made", JUNK, JUNK, NULL));
    SHOW(syscall(SYS_socket, JUNK | AF_UNIX, JUNK | SOCK_STREAM, JUNK) > 0);
    SHOW(syscall(SYS_socket, JUNK | AF_NETLINK, JUNK | SOCK_RAW, JUNK) > 0); /* NETLINK_ROUTE */
}

static void memory(void) {
    char *p = pages(8), *q;
    SHOW(syscall(SYS_mprotect, p, PAGE, JUNK | PROT_READ)),
        SHOW(syscall(SYS_madvise, p, PAGE, JUNK | MADV_DONTNEED));
    SHOW(syscall(SYS_msync, p, PAGE, JUNK | MS_ASYNC));
    SHOW(syscall(SYS_mremap, p, PAGE, 2 * PAGE, JUNK)), SHOW(syscall(SYS_pkey_mprotect, p, PAGE, JUNK, -1L));
    SHOW(syscall(SYS_mlock2, p, PAGE, JUNK)), SHOW(syscall(SYS_munlock, p, PAGE));
    SHOW(syscall(462, p, PAGE, JUNK) < 0);
    q = (char *)syscall(SYS_mmap, NULL, PAGE, JUNK | PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
                        JUNK | 0xffffffff, 0);
    say("mmap, junk in prot: %d %s", q != MAP_FAILED, q == MAP_FAILED ? errno_name(errno) : "");
    q = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, JUNK | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap, junk in flags: %d %s", q != MAP_FAILED, q == MAP_FAILED ? errno_name(errno) : "");
    q = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, JUNK | MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0);
    say("mmap, junk in validated flags: %d %s", q != MAP_FAILED, q == MAP_FAILED ? errno_name(errno) : "");
    int fd = (int)MUST(memfd_create("file", 0));
    q = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, JUNK | MAP_SHARED_VALIDATE, fd, 0);
    say("mmap of a file, the same: %d %s", q != MAP_FAILED, q == MAP_FAILED ? errno_name(errno) : "");
    SHOW(syscall(SYS_mlockall, JUNK)), SHOW(syscall(SYS_mlockall, JUNK | MCL_ONFAULT));
    SHOW(syscall(SYS_mlockall, JUNK | MCL_FUTURE | MCL_ONFAULT)), SHOW(munlockall());
    unsigned long mode = 0;
    SHOW(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, JUNK) < 0);
}

static void processes(void) {
    signal(SIGUSR1, SIG_IGN);
    SHOW(syscall(SYS_kill, JUNK | getpid(), JUNK | SIGUSR1));
    SHOW(syscall(SYS_tgkill, JUNK | getpid(), JUNK | gettid(), JUNK | SIGUSR1));
    SHOW(syscall(SYS_tkill, JUNK | gettid(), JUNK | 99));
    SHOW(syscall(SYS_prctl, JUNK | PR_GET_DUMPABLE, 0, 0, 0, 0));
    SHOW(syscall(SYS_prctl, PR_SET_DUMPABLE, JUNK | 1, 0, 0, 0));
    SHOW(syscall(SYS_prctl, PR_SET_PDEATHSIG, JUNK, 0, 0, 0));
    SHOW(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, JUNK | 1, 0, 0, 0));
    SHOW(syscall(SYS_personality, JUNK | 0xffffffff)), SHOW(syscall(SYS_setpriority, JUNK, JUNK, JUNK));
    SHOW(syscall(SYS_kcmp, JUNK | getpid(), JUNK | getpid(), JUNK, 0, 0));
    SHOW(syscall(SYS_futex, &(int){1}, JUNK | FUTEX_WAIT, JUNK | 2, NULL, NULL, 0));
    uint64_t lim[2];
    SHOW(syscall(SYS_prlimit64, JUNK | getpid(), JUNK | RLIMIT_NOFILE, NULL, lim));
    SHOW(syscall(SYS_setpgid, JUNK | 999999, JUNK)),
        SHOW(syscall(SYS_wait4, JUNK | 0xffffffff, NULL, JUNK | WNOHANG, NULL));
    pid_t pid = (pid_t)MUST(syscall(SYS_clone, JUNK | SIGCHLD, NULL, NULL, NULL, NULL));
    if (!pid)
        syscall(SYS_exit_group, JUNK | 3);
    int status = 0;
    MUST(waitpid(pid, &status, 0)), say("child %d", WEXITSTATUS(status));
    if (!(pid = (pid_t)MUST(fork())))
        SHOW(syscall(SYS_execveat, JUNK | 0xffffff9c, "/bin/true", (char *[]){"true", NULL}, NULL, JUNK)),
            _exit(9);
    MUST(waitpid(pid, &status, 0)), say("program %d", WEXITSTATUS(status));
}

// The namespace of another process's children, by its descriptor alone (setns(2): flags 0): the process is
// told of it.
static void namespaces(void) {
    if (!fork()) {
        SHOW(syscall(SYS_unshare, 1L << 32)), SHOW(syscall(SYS_unshare, 1L << 47 | 0x04000000));
        SHOW(syscall(SYS_setns, 999, 1L << 32));
        int fd = open("/proc/self/ns/uts", O_RDONLY);
        int e = (int)syscall(SYS_setns, fd, JUNK | 0x04000000); /* CLONE_NEWUTS */
        say("setns: %s", e == 0 ? "0" : errno_name(errno));
        _exit(0);
    }
    wait(NULL);
}

int main(void) {
    files(), memory(), processes(), namespaces();
    return wrong;
}
