// getres*, setres*, dropping from root to 1000, no way back, supplementary groups: credentials(7).
// krun: static
#include "guest.h"
#include <grp.h>
#include <sys/fsuid.h>
static void ids(const char *what) {
    uid_t r, e, s, g[3];
    getresuid(&r, &e, &s), getresgid(&g[0], &g[1], &g[2]);
    say("%s: %u %u %u / %u %u %u", what, r, e, s, g[0], g[1], g[2]);
}
int main(int argc, char **argv) {
    if (getuid())
        return say("not root"), 0;
    gid_t groups[3] = {5, 6, 7}, back[10];
    ids("start");
    TRY(setgroups(3, groups)), SHOW(getgroups(10, back)), say("%u %u %u", back[0], back[1], back[2]);
    TRY(getgroups(2, back)), SHOW(getgroups(0, NULL));
    reap("child", CHILD({
             TRY(setresgid(1000, 1001, 1002)), TRY(setresuid(1000, 1001, 1002)), ids("dropped");
             TRY(setuid(0)), TRY(setresuid(-1, 1000, -1)), ids("switched"), TRY(seteuid(1002)),
                 TRY(setreuid(1002, 1000)), ids("again");
             TRY(setgroups(0, NULL)), TRY(setgid(0)), TRY(setregid(1001, 1002)), ids("groups");
             SHOW(setfsuid(-1)), TRY(kill(1, 0)), TRY(open("/etc/shadow", O_RDONLY));
         }));
    reap("setuid", CHILD(TRY(setgid(1000)), TRY(setuid(1000)), ids("all"), TRY(setuid(0))));
    TRY(syscall(SYS_setresuid, -1, -1, -1)), TRY(syscall(SYS_getresuid, 8, 8, 8));
    ids("parent");
    return 0;
}
