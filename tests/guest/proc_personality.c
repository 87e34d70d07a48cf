// What setarch(8) sets: the machine and the release that uname(2) names, kept over fork and execve:
// personality(2). krun: static
#include "guest.h"
#include <sys/personality.h>
#include <sys/utsname.h>
static void show(const char *when) {
    struct utsname u;
    MUST(uname(&u));
    say("%s: %x, machine %s, release %s", when, personality(-1), u.machine,
        strncmp(u.release, "2.6.", 4) ? "true" : "2.6");
}
int main(int argc, char **argv) {
    if (argc > 1)
        return show("after execve"), 0;
    show("first");
    SHOW(personality(PER_LINUX32)), show("32");
    SHOW(personality(PER_LINUX32 | UNAME26 | ADDR_NO_RANDOMIZE)), show("and 2.6");
    reap("child", CHILD(show("child")));
    reap("program", CHILD(execl("/proc/self/exe", argv[0], "x", (char *)0)));
    SHOW(personality(0)), show("again");
    return wrong;
}
