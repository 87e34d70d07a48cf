// A stack limit of many TiB makes the kernel begin the mmap area of the next program that far down: that
// program is the monitor, and it must not lie where its payload may point to. What runs then waits for the
// watcher on the host, and looks itself: the call of the host at an address that the payload has not mapped
// fails, unless something of the monitor is there.
#include "attack.h"
#include <sys/resource.h>

static int stage(char **argv) { return argv[1] ? atoi(argv[1]) : -1; }

int main(int argc, char **argv) {
    static const unsigned long tera[] = {96, 64, 40, 24, 21, 20, 18, 1000000};
    (void)argc;
    int n = stage(argv);
    attack_check_native();
    if (n >= 0) {
        usleep(60000);
        return 0;
    }
    struct rlimit old;
    getrlimit(RLIMIT_STACK, &old);
    for (unsigned i = 0; i < sizeof tera / sizeof *tera && !attack_over(); i++) {
        pid_t pid = fork();
        if (pid < 0)
            attack_broken("fork");
        if (pid == 0) {
            struct rlimit r = {tera[i] << 40, old.rlim_max};
            if (tera[i] == 1000000)
                r.rlim_cur = RLIM_INFINITY;
            if (i & 1) { // the kernel counts what it maps: a monitor that looks must not be fooled by that
                struct rlimit space = {300UL << 20, RLIM_INFINITY};
                setrlimit(RLIMIT_AS, &space);
            }
            if (setrlimit(RLIMIT_STACK, &r))
                _exit(0);
            execl("/proc/self/exe", "layout", "1", NULL);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (attack_child_won(status))
            attack_won("natively, with a stack limit of %lu TiB", tera[i]);
        // The limit is the payload's: it gets what it asked for, and runs.
        if (!WIFEXITED(status))
            attack_won("a stack limit of %lu TiB ends the next program by signal %d", tera[i],
                       WTERMSIG(status));
    }
    attack_lost();
}
