// uname and host name; the fields are the host's: uname(2).
// krun: static
#include "guest.h"
#include <sys/utsname.h>
int main(int argc, char **argv) {
    struct utsname u;
    MUST(uname(&u));
    char host[65], *s = MUSTP(slurp("/proc/sys/kernel/osrelease"));
    s[strcspn(s, "\n")] = 0;
    say("%s %s %s", u.sysname, u.machine, u.release);
    gethostname(host, 65), EXPECT(!strcmp(host, u.nodename) && !strcmp(s, u.release));
    return wrong;
}
