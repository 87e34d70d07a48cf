// Scheduling attributes and I/O priorities: sched_setattr(2), sched_setparam(2), sched_rr_get_interval(2),
// ioprio_set(2).
#include "guest.h"
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t util_min, util_max;
};
int main(int argc, char **argv) {
    struct attr a = {0};
    SHOW(syscall(SYS_sched_getattr, 0, &a, sizeof a, 0)), SHOW(a.size == sizeof a), SHOW(a.policy),
        SHOW(a.nice);
    a.nice = 5, a.policy = SCHED_BATCH, a.flags = 0;
    SHOW(syscall(SYS_sched_setattr, 0, &a, 0)), SHOW(sched_getscheduler(0)),
        SHOW(getpriority(PRIO_PROCESS, 0));
    a.flags = 0x08 | 0x10; /* SCHED_FLAG_KEEP_ALL */
    a.nice = 9, a.policy = 0;
    SHOW(syscall(SYS_sched_setattr, 0, &a, 0)), SHOW(sched_getscheduler(0)),
        SHOW(getpriority(PRIO_PROCESS, 0));
    a.flags = 0, a.policy = 99;
    SHOW(syscall(SYS_sched_setattr, 0, &a, 0));
    a.policy = SCHED_OTHER, a.size = 4;
    SHOW(syscall(SYS_sched_setattr, 0, &a, 0)), SHOW(a.size == sizeof a);
    SHOW(syscall(SYS_sched_setattr, 0, &a, 1)), SHOW(syscall(SYS_sched_setattr, -1, &a, 0)),
        SHOW(syscall(SYS_sched_setattr, 0, (void *)8, 0));
    SHOW(syscall(SYS_sched_getattr, 0, &a, 4, 0)),
        SHOW(syscall(SYS_sched_getattr, 0, (void *)8, sizeof a, 0)),
        SHOW(syscall(SYS_sched_getattr, 0, &a, 48, 0)), SHOW(a.size);
    a = (struct attr){.size = sizeof a, .policy = SCHED_DEADLINE, .runtime = 1, .deadline = 2, .period = 1};
    SHOW(syscall(SYS_sched_setattr, 0, &a, 0));
    struct sched_param p = {0};
    SHOW(sched_setparam(0, &p)), SHOW(sched_setparam(0, (void *)8));
    p.sched_priority = 1;
    SHOW(sched_setparam(0, &p)), TRY(sched_setscheduler(0, SCHED_FIFO, &p)), SHOW(sched_getparam(0, &p)),
        SHOW(p.sched_priority);
    p.sched_priority = 0;
    SHOW(sched_setscheduler(0, SCHED_IDLE, &p)),
        SHOW(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &p)), SHOW(sched_getscheduler(0));
    int child = CHILD(SHOW(sched_getscheduler(0)), SHOW(getpriority(PRIO_PROCESS, 0)));
    reap("child", child);
    struct timespec t;
    SHOW(sched_rr_get_interval(0, &t)), SHOW(sched_rr_get_interval(-1, &t));
    SHOW(syscall(SYS_ioprio_get, 1, 0)), SHOW(syscall(SYS_ioprio_set, 1, 0, 3 << 13)),
        SHOW(syscall(SYS_ioprio_get, 1, 0));
    SHOW(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 3)), SHOW(syscall(SYS_ioprio_get, 1, 0)),
        SHOW(syscall(SYS_ioprio_set, 9, 0, 0)), SHOW(syscall(SYS_ioprio_get, 2, getpgrp()) >= 0);
    return wrong;
}
