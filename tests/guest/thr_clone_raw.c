// A thread made by raw clone(2): CLONE_SETTLS, CLONE_CHILD_CLEARTID wakes a futex, tids in both places.
#include "guest.h"
#include <linux/futex.h>
static pid_t parent_tid, child_tid = -1; // set by the child, cleared at its end
static int seen;
static int body(void *a) {
    pid_t me = syscall(SYS_gettid);
    seen = me == parent_tid && me == child_tid && getpid() != me;
    syscall(SYS_exit, 0);
    return 0;
}
int main(int argc, char **argv) {
    char *stack = (char *)pages(16) + 16 * PAGE;
    void *tls = calloc(1, 8192);
    *(void **)((char *)tls + 4096) = (char *)tls + 4096; // the thread pointer's self reference
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    int tid = clone(body, stack, flags, NULL, &parent_tid, (char *)tls + 4096, &child_tid);
    EXPECT(tid > 0);
    for (pid_t v; (v = __atomic_load_n(&child_tid, __ATOMIC_ACQUIRE));)
        syscall(SYS_futex, &child_tid, FUTEX_WAIT, v, NULL, NULL, 0);
    EXPECT(seen && parent_tid == tid && child_tid == 0);
    return wrong;
}
