// wait4(2) gives the child's usage; getrusage and times add up: getrusage(2).
#include "guest.h"
#include <sys/times.h>
int main(int argc, char **argv) {
    struct rusage u, all;
    struct tms t;
    pid_t c = CHILD({
        volatile char *p = pages(2000);
        for (int i = 0; i < 2000; i++)
            p[i * PAGE] = 1;
        for (long long end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + 60000000;
             now_ns(CLOCK_PROCESS_CPUTIME_ID) < end;)
            ;
    });
    EXPECT(wait4(c, NULL, 0, &u) == c);
    long used =
        u.ru_utime.tv_sec * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_sec * 1000000 + u.ru_stime.tv_usec;
    EXPECT(used >= 50000 && u.ru_maxrss >= 8000);
    EXPECT(getrusage(RUSAGE_CHILDREN, &all) == 0 && all.ru_maxrss >= u.ru_maxrss);
    EXPECT(times(&t) != -1 && t.tms_cutime + t.tms_cstime >= 4);
    EXPECT(getrusage(RUSAGE_SELF, &all) == 0 && getrusage(RUSAGE_THREAD, &u) == 0);
    TRY(getrusage(5, &u));
    return wrong;
}
