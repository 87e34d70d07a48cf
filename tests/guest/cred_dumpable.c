// Each change of the effective and file-system ids ends the dumpable attribute, until prctl or execve:
// PR_SET_DUMPABLE(2const).
#include "guest.h"
#include <sys/fsuid.h>
#include <sys/prctl.h>
static int dumpable(void) { return (int)MUST(prctl(PR_GET_DUMPABLE)); }
static void *thread_changes(void *a) {
    MUST(syscall(SYS_setresuid, -1, 1000, -1)), MUST(syscall(SYS_setresuid, -1, 0, -1));
    return a;
}
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "again")) {
        say("after execve %d", dumpable());
        return 0;
    }
    if (getuid())
        return 0;
    say("at first %d", dumpable());
    MUST(setfsuid(0)), MUST(setresuid(1000, 0, 0)), MUST(setresuid(0, 0, 1000)), MUST(setresuid(0, 0, 0));
    say("no effective id changed %d", dumpable());
    MUST(seteuid(1000)), MUST(seteuid(0));
    say("seteuid and back %d", dumpable());
    reap("child", CHILD(say("a child %d", dumpable())));
    MUST(prctl(PR_SET_DUMPABLE, 1));
    say("set %d", dumpable());
    setfsuid(1000), setfsuid(0);
    say("setfsuid and back %d", dumpable()), MUST(prctl(PR_SET_DUMPABLE, 1));
    MUST(setegid(1000)), MUST(setegid(0));
    say("setegid and back %d", dumpable()), MUST(prctl(PR_SET_DUMPABLE, 1));
    setfsgid(1000), setfsgid(0);
    say("setfsgid and back %d", dumpable()), MUST(prctl(PR_SET_DUMPABLE, 1));
    pthread_t other;
    MUST(pthread_create(&other, NULL, thread_changes, NULL)), pthread_join(other, NULL);
    say("another thread %d", dumpable());
    MUST(execl(argv[0], argv[0], "again", NULL));
}
