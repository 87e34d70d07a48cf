// krun: static
// Threads that compute without a system call, in a process whose descriptor table is full: each gets its
// turn. A hard RLIMIT_NOFILE of 1024 (tests/integration/test_process.py) leaves no descriptor for their
// vCPUs.
#include "guest.h"
enum { N = 6 };
static volatile int arrived;
static void *work(void *a) {
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    while (arrived < N)
        ;
    return a;
}
int main(void) {
    pthread_t t[N];
    while (dup(0) >= 0)
        ;
    say("%s", errno_name(errno));
    for (int i = 0; i < N; i++)
        t[i] = thread(work, NULL);
    for (int i = 0; i < N; i++)
        join(t[i]);
    say("%d threads met", arrived);
    return wrong;
}
