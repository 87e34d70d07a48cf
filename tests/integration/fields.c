// Prints what a program finds of itself: the fields of config.json that no file of /proc shows. With "give": gives its parent
// its session keyring, and prints whether it could. With "hold NAME": makes a keyring of that name, for everybody, and keeps it.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

struct attr {
    unsigned size, policy;
    unsigned long long flags;
    int nice;
    unsigned priority;
    unsigned long long runtime, deadline, period;
};

static int give_keyring(void) {
    long joined = syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, "fields");
    long given = syscall(SYS_keyctl, 18 /* SESSION_TO_PARENT */);
    printf("joined %d\ngiven %s\n", joined > 0, given < 0 ? strerror(errno) : "yes");
    return 0;
}

static int hold_keyring(const char *name) {
    long key = syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, name);
    long open = syscall(SYS_keyctl, 5 /* SETPERM */, key, 0x3f3f3f3f);
    printf("held %d\n", key > 0 && open == 0);
    fflush(stdout);
    pause();
    return 0;
}

int main(int argc, char **argv) {
    struct attr a = {0};
    struct utsname u;
    struct timespec t;
    cpu_set_t set;
    int mode = -1;
    unsigned long nodes[16] = {0};
    char text[256] = {0};
    long n;

    if (argc > 2)
        return hold_keyring(argv[2]);
    if (argc > 1 && argv[1][0])
        return give_keyring();
    syscall(SYS_sched_getattr, 0, &a, sizeof a, 0);
    printf("policy %u\nnice %d\npriority %u\nflags %llu\n", a.policy, a.nice, a.priority, a.flags);
    printf("deadline %llu %llu %llu\n", a.runtime, a.deadline, a.period);
    n = syscall(SYS_ioprio_get, 1, 0);
    printf("ioprio %ld %ld\n", n >> 13, n & 0x1fff);
    printf("ioprio group %ld\n", syscall(SYS_ioprio_get, 2, 0));
    n = syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, 0, 0);
    printf("mempolicy %ld %d %lu\n", n, mode, nodes[0]);
    printf("personality %d\n", personality(0xffffffff));
    uname(&u);
    printf("machine %s\ndomainname %s\n", u.machine, u.domainname);
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("monotonic %lld\n", (long long)t.tv_sec);
    clock_gettime(CLOCK_BOOTTIME, &t);
    printf("boottime %lld\n", (long long)t.tv_sec);
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    printf("cpus %d %d\n", CPU_COUNT(&set), CPU_ISSET(0, &set) != 0);
    n = syscall(SYS_keyctl, 6 /* DESCRIBE */, -3 /* session */, text, sizeof text - 1);
    printf("keyring %s\n", n < 0 ? "none" : strrchr(text, ';') ? strrchr(text, ';') + 1 : text);
    return 0;
}
