// RLIMIT_FSIZE of 0: /proc can be read and programs can be started all the same.
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit old, zero;
    MUST(getrlimit(RLIMIT_FSIZE, &old));
    zero = (struct rlimit){0, old.rlim_max};
    MUST(setrlimit(RLIMIT_FSIZE, &zero));
    char *maps = slurp("/proc/self/maps"), *status = slurp("/proc/self/status");
    pid_t p = CHILD(execl("/bin/true", "true", NULL));
    siginfo_t si;
    waitid(P_PID, p, &si, WEXITED | WNOWAIT);
    MUST(setrlimit(RLIMIT_FSIZE, &old)); // what we say goes to a file
    EXPECT(maps && strstr(maps, "[stack]"));
    EXPECT(status && !strncmp(status, "Name:\t", 6));
    reap("exec", p);
    return wrong;
}
