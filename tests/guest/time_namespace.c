// The clocks of a process that enters a time namespace, by fork(2) after unshare(2), by clone3(2), by
// setns(2): vDSO and system call agree from the first reading on. time_namespaces(7). krun: host
#include "guest.h"

static double seconds(const struct timespec *t) { return (double)t->tv_sec + (double)t->tv_nsec / 1e9; }

// Of each clock: whether a reading of the vDSO lies between two system calls, and how far the clock is from
// `from`.
static void show(const char *what, const double from[2]) {
    static const clockid_t ids[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME};
    static const char *const names[] = {"monotonic", "boottime"};
    struct timespec v[2], s[2];
    for (int i = 0; i < 2; i++)
        clock_gettime(ids[i], &v[i]); /* first: before any exit */
    for (int i = 0; i < 2; i++)
        syscall(SYS_clock_gettime, ids[i], &s[i]);
    for (int i = 0; i < 2; i++) {
        double late = seconds(&s[i]) - seconds(&v[i]);
        say("%s: %s %s, %s by %.0f", what, names[i], late >= 0 && late < 0.5 ? "agrees" : "is another",
            late < 0 ? "ahead" : "later", (seconds(&s[i]) - from[i]) / 1000);
    }
}

static void now(double out[2]) {
    struct timespec m, b;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &m), syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &b);
    out[0] = seconds(&m), out[1] = seconds(&b);
}

int main(int argc, char **argv) {
    double from[2];
    now(from);
    reap("first", CHILD({
             int old = (int)MUST(open("/proc/self/ns/time", O_RDONLY));
             MUST(unshare(CLONE_NEWTIME));
             int fd = (int)MUST(open("/proc/self/timens_offsets", O_WRONLY));
             MUST(write(fd, "monotonic 2000 0\nboottime 7000 0\n", 33));
             show("unshare", from);
             for (int i = 0; i < 3; i++)
                 reap("fork", CHILD(show("fork", from)));
             int fresh = (int)MUST(open("/proc/self/ns/time_for_children", O_RDONLY));
             for (int i = 0; i < 3; i++) {
                 MUST(setns(fresh, CLONE_NEWTIME));
                 show("setns", from);
                 MUST(setns(old, 0));
                 show("back", from);
             }
             reap("fork", CHILD(show("fork", from)));
         }));
    return wrong;
}
