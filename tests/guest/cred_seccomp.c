// A seccomp filter set from inside: ERRNO, KILL, TRAP with siginfo, inherited by fork and exec: seccomp(2).
#include "guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
static long install(int nr, unsigned action, int flags) {
    struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, action),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {4, f};
    return flags < 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)
                     : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}
static volatile int number, arch_ok, code;
static void sys(int s, siginfo_t *i, void *c) {
    number = i->si_syscall, arch_ok = i->si_arch == 0xc000003e, code = i->si_code;
}
static void *run(void *a) { return (void *)(long)(syscall(SYS_getpgrp) == -1 ? errno : 0); }
int main(int argc, char **argv) {
    if (argc > 1) {
        TRY(syscall(SYS_getppid));
        return 0;
    }
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(install(SYS_getppid, SECCOMP_RET_ERRNO | ENOTEMPTY, -1)), TRY(syscall(SYS_getppid));
    SHOW(prctl(PR_GET_SECCOMP));
    reap("fork", CHILD(TRY(syscall(SYS_getppid))));
    reap("exec", CHILD(execl(argv[0], argv[0], "x", NULL)));
    on_info(SIGSYS, sys, 0);
    TRY(install(SYS_getuid, SECCOMP_RET_TRAP | 5, 0)), syscall(SYS_getuid);
    say("number right %d, arch %d, code %d", number == SYS_getuid, arch_ok, code);
    reap("killed", CHILD(install(SYS_getgid, SECCOMP_RET_KILL_PROCESS, 0); syscall(SYS_getgid)));
    TRY(install(SYS_getpgrp, SECCOMP_RET_ERRNO | EXDEV, SECCOMP_FILTER_FLAG_TSYNC)),
        say("thread: %s", errno_name((long)join(thread(run, NULL))));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 8)), TRY(syscall(SYS_seccomp, 99, 0, 0));
    unsigned action = SECCOMP_RET_TRAP;
    TRY(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
    reap("strict", CHILD({
             prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), write(1, "still writing\n", 14),
                 syscall(SYS_getegid);
         }));
    return 0;
}
