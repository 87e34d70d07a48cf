// clone3(2) as fork: pidfd, exit signal, set_tid; bad sizes and flags.
#include "guest.h"
struct args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
        cgroup;
};
int main(int argc, char **argv) {
    int pidfd = -1, s;
    pid_t tid = 0;
    struct args a = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID,
                     .pidfd = (uintptr_t)&pidfd,
                     .parent_tid = (uintptr_t)&tid,
                     .exit_signal = SIGCHLD};
    long c = syscall(SYS_clone3, &a, sizeof(a));
    if (!c)
        _exit(9);
    EXPECT(c > 0 && c == tid && pidfd > 2);
    waitpid(c, &s, 0), say_status("child", s);
    TRY(syscall(SYS_clone3, &a, 8));
    TRY(syscall(SYS_clone3, &a, 100000));
    TRY(syscall(SYS_clone3, NULL, sizeof(a)));
    a.exit_signal = 1000;
    TRY(syscall(SYS_clone3, &a, sizeof(a)));
    a.exit_signal = SIGCHLD, a.flags = CLONE_THREAD;
    TRY(syscall(SYS_clone3, &a, sizeof(a)));
    a.flags = 0, a.set_tid = 0, a.set_tid_size = 1;
    TRY(syscall(SYS_clone3, &a, sizeof(a)));
    a.set_tid = 8;
    TRY(syscall(SYS_clone3, &a, sizeof(a)));
    a.set_tid_size = 0;
    TRY(syscall(SYS_clone3, &a, sizeof(a)));
    return wrong;
}
