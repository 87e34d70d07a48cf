// SCHED_DEADLINE outlives an execve, and its thread may not fork: sched(7).
// krun: host
#include "guest.h"

struct attr { // sched_setattr(2); glibc 2.36 has none, and the kernel's header clashes with <sched.h>
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

int main(int argc, char **argv) {
    struct attr a = {
        .size = 48, .policy = SCHED_DEADLINE, .runtime = 8000000, .deadline = 10000000, .period = 10000000};
    if (argc < 2) {
        TRY(syscall(SYS_sched_setattr, 0, &a, 0));
        execl("/proc/self/exe", argv[0], "again", NULL);
        return 1;
    }
    memset(&a, 0, sizeof a);
    TRY(syscall(SYS_sched_getattr, 0, &a, 48, 0));
    say("policy %u flags %d runtime %d", a.policy, (int)a.flags, (int)a.runtime);
    TRY(fork());
    return wrong;
}
