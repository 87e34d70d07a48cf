// cmdline, comm, environ, stat, status, auxv show the payload: proc(5).
// krun: static args=one,two env=MARK=in-the-environment
#include "guest.h"
#include <sys/auxv.h>
#include <sys/prctl.h>
extern char **environ;
int main(int argc, char **argv) {
    char *s = MUSTP(slurp("/proc/self/cmdline")), path[60], comm[17] = "", state;
    EXPECT(!strcmp(s, argv[0]));
    s += strlen(s) + 1, say("%s", s), s += strlen(s) + 1, say("%s", s), say("end %d", s[strlen(s) + 1]);
    s = MUSTP(slurp("/proc/self/comm")), say("%s", s);
    s = MUSTP(slurp("/proc/self/environ"));
    int found = 0;
    for (char *p = s; *p; p += strlen(p) + 1)
        found += !strncmp(p, "MARK=in-the-environment", 23),
            found += 100 * !strncmp(p, "KRUN", 4) + 100 * !strncmp(p, "PYTHON", 6);
    say("environment %d", found % 100);
    int pid, ppid, pgrp, session;
    sprintf(path, "/proc/%d/stat", getpid());
    sscanf(MUSTP(slurp(path)), "%d (%16[^)]) %c %d %d %d", &pid, comm, &state, &ppid, &pgrp, &session);
    say("%s %c %d", comm, state,
        pid == getpid() && ppid == getppid() && pgrp == getpgrp() && session == getsid(0));
    s = MUSTP(slurp("/proc/self/status"));
    say("%.*s", (int)(strchr(s, '\n') - s), s);
    sscanf(strstr(s, "\nPid:"), "\nPid: %d", &pid), EXPECT(pid == getpid());
    prctl(PR_SET_NAME, "renamed"), s = slurp("/proc/self/comm"), say("%s", s);
    int fd = MUST(open("/proc/self/auxv", O_RDONLY));
    unsigned long v[80] = {0};
    ssize_t n = read(fd, v, sizeof(v));
    int right = 0, all = 0;
    for (int i = 0; i < n / 16 && v[2 * i]; i++)
        if (v[2 * i] != AT_HWCAP && v[2 * i] != AT_HWCAP2)
            all++, right += getauxval(v[2 * i]) == v[2 * i + 1];
    EXPECT(all > 12 && right == all);
    return wrong;
}
