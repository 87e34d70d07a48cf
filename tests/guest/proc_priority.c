// getpriority, setpriority, nice, and what a child inherits: setpriority(2).
#include "guest.h"
int main(int argc, char **argv) {
    SHOW(getpriority(PRIO_PROCESS, 0));
    TRY(setpriority(PRIO_PROCESS, 0, 5));
    SHOW(nice(3));
    reap("child", CHILD(SHOW(getpriority(PRIO_PROCESS, 0))));
    TRY(setpriority(PRIO_PROCESS, 0, 100));
    SHOW(getpriority(PRIO_PROCESS, 0));
    SHOW(getpriority(PRIO_PROCESS, 99999999));
    SHOW(getpriority(9, 0));
    if (!getuid())
        MUST(setresuid(1000, 1000, 1000));
    TRY(setpriority(PRIO_PROCESS, 0, 1));
    return 0;
}
