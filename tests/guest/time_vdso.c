// gettimeofday, time and getcpu agree with the system calls: vdso(7).
// krun: static
#include "guest.h"
int main(int argc, char **argv) {
    long bad = 0;
    for (int i = 0; i < 2000; i++) {
        struct timeval v, s;
        time_t a, b;
        gettimeofday(&v, NULL), syscall(SYS_gettimeofday, &s, NULL);
        bad += (s.tv_sec - v.tv_sec) * 1000000L + s.tv_usec - v.tv_usec < 0;
        a = time(NULL), b = syscall(SYS_time, NULL);
        bad += b - a < 0 || b - a > 1 || a < v.tv_sec - 1;
    }
    say("wrong %ld", bad);
    unsigned cpu = 999, node = 999;
    EXPECT(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && cpu < 4096 && node < 64);
    EXPECT(sched_getcpu() >= 0 && sched_getcpu() < sysconf(_SC_NPROCESSORS_CONF));
    time_t t;
    EXPECT(time(&t) >= t - 1 && t > 1600000000);
    TRY(syscall(SYS_time, 8));
    return wrong;
}
