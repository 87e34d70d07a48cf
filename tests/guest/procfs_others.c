// What of other processes can be seen: a child's exe, cmdline, fd, status, maps: proc(5).
#include "guest.h"
// The kilobytes of a line of status; -1: there is none.
static long kilobytes(const char *status, const char *line) {
    const char *at = strstr(status, line);
    return at ? atol(at + strlen(line)) : -1;
}
// The most that a process has mapped: what it maps now, or little more.
static int peak_is_near(const char *status) {
    long now = kilobytes(status, "VmSize:"), peak = kilobytes(status, "VmPeak:");
    return now > 0 && peak >= now && peak < now + (1 << 20);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        write(1, "", 0), pause();
        return 0;
    }
    char path[60], link[4096] = "", *s = NULL;
    pid_t c = CHILD(execl(argv[0], argv[0], "sleeping", "child", NULL));
    sprintf(path, "/proc/%d/cmdline", c);
    for (int i = 0; i < 3000 && !(s && strlen(s) && !strcmp(s + strlen(s) + 1, "sleeping")); i++)
        pause_ms(1), s = slurp(path);
    EXPECT(s && !strcmp(s, argv[0]) && !strcmp(s + strlen(s) + 1, "sleeping"));
    sprintf(path, "/proc/%d/exe", c); // the link needs the right to trace: a refusal is honest
    EXPECT(readlink(path, link, 4095) < 0 ? errno == EACCES : !strcmp(link, argv[0]));
    sprintf(path, "/proc/%d/comm", c);
    for (int i = 0; i < 3000 && !((s = slurp(path)) && !strcmp(s, "procfs_others\n")); i++)
        pause_ms(1);
    say("%s", s ? s : errno_name(errno));
    sprintf(path, "/proc/%d/status", c), s = slurp(path);
    int ppid = 0;
    sscanf(strstr(s, "PPid:"), "PPid: %d", &ppid), EXPECT(ppid == getpid());
    EXPECT(peak_is_near(s));
    EXPECT(peak_is_near(slurp("/proc/self/status")));
    EXPECT(kilobytes(s, "VmRSS:") > 0);
    sprintf(path, "/proc/%d/maps", c),
        s = slurp(path), EXPECT(!s || !*s || (strstr(s, argv[0]) && !strstr(s, "krun-monitor")));
    sprintf(path, "/proc/%d/fd/0", c), memset(link, 0, sizeof(link)); // as with exe
    EXPECT(readlink(path, link, 4095) < 0 ? errno == EACCES : !strcmp(link, "/dev/null"));
    kill(c, SIGTERM), reap("child", c);
    TRY(open(path, O_RDONLY));
    return wrong;
}
