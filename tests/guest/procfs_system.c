// System-wide files are readable and have what programs look for: proc(5).
#include "guest.h"
static void has(const char *path, const char *word) {
    char *s = slurp(path);
    say("%s: %s", path, !s ? errno_name(errno) : strstr(s, word) ? "has it" : "lacks it");
}
int main(int argc, char **argv) {
    has("/proc/cpuinfo", "model name"), has("/proc/meminfo", "MemTotal:"), has("/proc/uptime", "."),
        has("/proc/loadavg", "/"), has("/proc/stat", "cpu0"), has("/proc/version", "Linux");
    has("/proc/filesystems", "proc"), has("/proc/mounts", " / "), has("/proc/self/mountinfo", " / "),
        has("/proc/self/limits", "Max open files"), has("/proc/self/cgroup", ":");
    has("/proc/sys/kernel/pid_max", ""), has("/proc/sys/kernel/ostype", "Linux"),
        has("/proc/sys/vm/overcommit_memory", ""), has("/proc/self/oom_score_adj", ""),
        has("/proc/self/io", "rchar");
    has("/proc/self/schedstat", " "), has("/proc/self/wchan", ""), has("/proc/net/dev", "lo"),
        has("/proc/self/net/unix", "Path"), has("/proc/self/uid_map", "0"), has("/proc/nothing", "");
    int online = sysconf(_SC_NPROCESSORS_ONLN), seen = 0;
    for (char *s = slurp("/proc/cpuinfo"); (s = strstr(s, "processor\t")); s++)
        seen++;
    EXPECT(seen >= 1 && online >= 1);
    return wrong;
}
