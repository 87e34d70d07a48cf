// Affinity: set, get, inherited by threads and children; bad masks fail: sched_setaffinity(2).
#include "guest.h"
static void *run(void *a) {
    cpu_set_t s;
    sched_getaffinity(0, sizeof(s), &s);
    return (void *)(long)(CPU_COUNT(&s) * 1000 + CPU_EQUAL(&s, (cpu_set_t *)a));
}
int main(int argc, char **argv) {
    cpu_set_t all, one;
    EXPECT(syscall(SYS_sched_getaffinity, 0, sizeof(all), &all) > 0);
    sched_getaffinity(0, sizeof(all), &all);
    EXPECT(CPU_COUNT(&all) == sysconf(_SC_NPROCESSORS_ONLN) || CPU_COUNT(&all) > 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    TRY(sched_setaffinity(0, sizeof(one), &one));
    CPU_SET(cpu, &one);
    TRY(sched_setaffinity(0, sizeof(one), &one));
    EXPECT(sched_getcpu() == cpu);
    say("thread: %ld", (long)join(thread(run, &one)));
    reap("child", CHILD(say("child: %ld", (long)run(&one))));
    TRY(sched_setaffinity(99999999, sizeof(one), &one));
    TRY(syscall(SYS_sched_getaffinity, 0, 1, &one));
    TRY(sched_setaffinity(0, sizeof(all), &all));
    return wrong;
}
