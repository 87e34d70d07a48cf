// `krun exec` and `krun create` from outside, while the container's root changes the limits of every process that appears: of the
// descriptors, of the stack (the place of the monitor), of memory, files, signals.  They may fail; what they start must
// stand where it belongs, and nothing may hang.
#include "attack.h"
#include <sys/resource.h>

static const struct {
    int which;
    rlim_t soft;
} limits[] = {
    {RLIMIT_STACK, 96UL << 40}, {RLIMIT_STACK, RLIM_INFINITY}, {RLIMIT_STACK, 4096},
    {RLIMIT_NOFILE, 3},         {RLIMIT_NOFILE, 12},           {RLIMIT_NOFILE, 64},
    {RLIMIT_AS, 64UL << 20},    {RLIMIT_AS, 4UL << 30},        {RLIMIT_DATA, 1 << 20},
    {RLIMIT_FSIZE, 0},          {RLIMIT_SIGPENDING, 0},        {RLIMIT_CORE, RLIM_INFINITY},
    {RLIMIT_NPROC, 1},          {RLIMIT_MEMLOCK, 0},           {RLIMIT_STACK, 48UL << 40},
};

int main(void) {
    pid_t newest = getpid();
    for (unsigned i = 0; !attack_over(); i++) {
        unsigned n = i / 64 % (sizeof limits / sizeof *limits);
        if (i % 64 == 0) {
            pid_t pid = vfork(); // where the numbers are now
            if (pid == 0)
                _exit(0);
            newest = pid > 0 ? pid : newest;
            waitpid(pid, NULL, 0);
        }
        struct rlimit now, next;
        pid_t pid = newest + 8 - (pid_t)(i % 64) / 4;
        if (pid <= 1 || pid == getpid() ||
            prlimit(pid, (enum __rlimit_resource)limits[n].which, NULL, &now) < 0)
            continue;
        next = now;
        next.rlim_cur = limits[n].soft > now.rlim_max ? now.rlim_max : limits[n].soft;
        prlimit(pid, (enum __rlimit_resource)limits[n].which, &next, NULL);
    }
    attack_lost();
}
