// Scheduling policies and parameters, ranges, per thread; sched_getattr: sched_setscheduler(2).
#include "guest.h"
static void *run(void *a) {
    struct sched_param p = {0};
    TRY(sched_setscheduler(0, SCHED_BATCH, &p));
    SHOW(sched_getscheduler(0));
    return NULL;
}
int main(int argc, char **argv) {
    struct sched_param p = {0};
    SHOW(sched_getscheduler(0));
    SHOW(sched_get_priority_max(SCHED_FIFO));
    SHOW(sched_get_priority_min(SCHED_RR));
    SHOW(sched_get_priority_max(SCHED_OTHER));
    TRY(sched_get_priority_max(99));
    join(thread(run, NULL));
    SHOW(sched_getscheduler(0));
    p.sched_priority = 1;
    TRY(sched_setscheduler(0, SCHED_OTHER, &p));
    TRY(sched_getparam(0, &p));
    say("priority %d", p.sched_priority);
    TRY(sched_getparam(99999999, &p));
    struct timespec t;
    TRY(sched_rr_get_interval(0, &t));
    uint32_t attr[16] = {0};
    TRY(syscall(SYS_sched_getattr, 0, attr, sizeof(attr), 0));
    EXPECT(attr[0] >= 48 && attr[1] == SCHED_OTHER);
    TRY(syscall(SYS_sched_getattr, 0, attr, 3, 0));
    return wrong;
}
