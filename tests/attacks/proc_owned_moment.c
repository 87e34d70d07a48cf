// The monitor is dumpable while its payload opens an entry of /proc/self that Linux gives to the process's user. Another process
// of the same user raises its limit on cores and sends it signals that end in one, and looks at its entries of /proc: no core is the
// kernel's (it would hold the monitor's memory, and sets the core flag), and nothing of the monitor is shown.
#include "attack.h"
#include <sys/resource.h>

static void victim(void) {
    for (;;)
        close(open("/proc/self/comm", O_WRONLY));
}

static void look(pid_t pid) {
    static const char *const names[] = {"mem", "pagemap", "stack", "syscall", "clear_refs"};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, names[i]);
        if (open(path, i == 4 ? O_WRONLY : O_RDONLY) >= 0)
            attack_won("%s", path);
    }
}

int main(void) {
    static const int fatal[] = {SIGQUIT, SIGABRT, SIGXCPU, SIGSYS, SIGTRAP, SIGBUS};
    struct rlimit none, all;
    if (chdir("/tmp") < 0 || getrlimit(RLIMIT_CORE, &all) < 0)
        attack_broken("limits");
    none = all;
    none.rlim_cur = 0;
    all.rlim_cur = all.rlim_max;
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        attack_broken("setrlimit");
    for (unsigned i = 0; !attack_over(); i++) {
        int status;
        pid_t pid = fork();
        if (pid < 0)
            attack_broken("fork");
        if (pid == 0)
            victim();
        usleep(i * 37 % 3000);
        if (i & 1)
            kill(pid, SIGSTOP);
        if (i % 8 == 0)
            look(pid);
        if (prlimit(pid, RLIMIT_CORE, &all, NULL) < 0)
            attack_broken("prlimit");
        kill(pid, fatal[i % (sizeof fatal / sizeof *fatal)]);
        kill(pid, SIGCONT);
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status) && WCOREDUMP(status))
            attack_won("a core of the monitor");
    }
    attack_lost();
}
