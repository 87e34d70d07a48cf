// The dumpable attribute belongs to the memory: processes that share it (CLONE_VM) have it together, and
// others of the user may look at all of them or at none: PR_SET_DUMPABLE(2const), clone(2), proc(5).
#include "guest.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

static char stack[65536] __attribute__((aligned(16)));
static volatile int turn; // 1: the relative acts, 2: it has, 3: it ends

static int waits(void *unused) {
    (void)unused;
    while (turn != 3)
        usleep(1000);
    return 0;
}
static int changes_ids(void *unused) {
    while (turn != 1)
        usleep(1000);
    MUST(syscall(SYS_setresuid, -1, 1001, -1)), MUST(syscall(SYS_setresuid, -1, 1000, -1));
    turn = 2;
    return waits(unused);
}
static pid_t relative(int (*fn)(void *)) {
    turn = 0;
    return MUST(clone(fn, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
}
static void looks_at(const char *what, pid_t pid) {
    reap(what, CHILD({
             char path[64], text[64];
             snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
             int link = readlink(path, text, sizeof text) > 0;
             snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
             int fd = open(path, O_RDONLY);
             say("%s: cwd %d environ %d", what, link, fd >= 0 && read(fd, text, 1) >= 0);
         }));
}
static void ends(pid_t pid) { turn = 3, reap("relative", pid); }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    if (getuid())
        return 0;
    MUST(setresgid(1000, 1000, 1000));
    reap("undumpable", CHILD({
             MUST(setresuid(1000, 1000, 1000)), MUST(prctl(PR_SET_DUMPABLE, 1));
             pid_t pid = relative(waits);
             looks_at("dumpable", pid);
             MUST(prctl(PR_SET_DUMPABLE, 0));
             looks_at("undumpable", pid);
             MUST(prctl(PR_SET_DUMPABLE, 1));
             looks_at("dumpable again", pid);
             ends(pid);
         }));
    reap("ids", CHILD({
             MUST(setresuid(1000, 1000, 1001)), MUST(prctl(PR_SET_DUMPABLE, 1));
             pid_t pid = relative(changes_ids);
             turn = 1;
             while (turn != 2)
                 usleep(1000);
             say("the maker %d", prctl(PR_GET_DUMPABLE));
             looks_at("the maker", getpid());
             ends(pid);
         }));
    return 0;
}
