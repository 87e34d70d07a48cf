// Bad pointers to results and structures of many calls: EFAULT, not a crash.
#include "guest.h"
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/times.h>
#include <sys/utsname.h>
int main(int argc, char **argv) {
    char *bad = pages(2), *edge = bad + PAGE - 4; // a structure that begins on a good page
    MUST(munmap(bad + PAGE, PAGE));
    int p[2], e = epoll_create1(0), s = socket(AF_INET, SOCK_DGRAM, 0);
    MUST(pipe(p));
    TRY(syscall(SYS_newfstatat, AT_FDCWD, "/", edge, 0));
    TRY(syscall(SYS_fstat, 0, 0));
    TRY(statfs("/", (void *)edge));
    TRY(syscall(SYS_uname, edge));
    TRY(syscall(SYS_times, edge));
    TRY(syscall(SYS_sysinfo, edge));
    TRY(syscall(SYS_getrlimit, RLIMIT_CORE, edge));
    TRY(syscall(SYS_getrusage, 0, edge));
    TRY(syscall(SYS_clock_gettime, 0, 8));
    TRY(syscall(SYS_gettimeofday, 8, 0));
    TRY(syscall(SYS_nanosleep, edge, 0));
    TRY(syscall(SYS_pipe2, edge, 0));
    TRY(syscall(SYS_getcwd, edge, 100));
    TRY(syscall(SYS_rt_sigaction, SIGUSR1, edge, 0, 8));
    TRY(syscall(SYS_rt_sigprocmask, 0, edge, 0, 8));
    TRY(syscall(SYS_sigaltstack, edge, 0));
    TRY(syscall(SYS_poll, edge, 1, 0));
    TRY(syscall(SYS_select, 10, edge, 0, 0, 0));
    TRY(syscall(SYS_epoll_ctl, e, EPOLL_CTL_ADD, p[0], edge));
    TRY(syscall(SYS_getsockname, s, edge, edge));
    TRY(syscall(SYS_sendmsg, s, edge, 0));
    TRY(syscall(SYS_futex, edge + 4, 0, 0, 0));
    TRY(syscall(SYS_wait4, -1, edge, WNOHANG, 0));
    TRY(syscall(SYS_getrandom, edge, 0, 0));
    TRY(syscall(SYS_getdents64, MUST(open("/", O_RDONLY)), edge + 4, 1000));
    TRY(syscall(SYS_readlink, "/proc/self/exe", edge + 4, 100));
    TRY(syscall(SYS_getgroups, 10, 8));
    TRY(syscall(SYS_sched_getaffinity, 0, 128, edge + 4));
    return 0;
}
