// maps, smaps, numa_maps and map_files by other ways: thread, pid, dirfd, small reads, seeking: proc(5).
#include "guest.h"
int main(int argc, char **argv) {
    char path[60], *whole = MUSTP(slurp("/proc/self/maps")), *rebuilt = calloc(1, 200000);
    int fd = MUST(open("/proc/thread-self/maps", O_RDONLY)), n = 0;
    for (ssize_t k; (k = read(fd, rebuilt + n, 17)) > 0;)
        n += k;
    EXPECT(n > 500 && strstr(rebuilt, argv[0]) && rebuilt[n - 1] == '\n');
    EXPECT(lseek(fd, 0, SEEK_SET) == 0 && read(fd, rebuilt, 12) == 12 && !memcmp(rebuilt, whole, 12));
    sprintf(path, "/proc/%d/task/%d/maps", getpid(), getpid());
    char *other = slurp(path);
    EXPECT(other && strstr(other, argv[0]));
    int d = MUST(open("/proc/self/task", O_PATH));
    sprintf(path, "%d/maps", getpid());
    EXPECT((fd = openat(d, path, O_RDONLY)) >= 0 && read(fd, rebuilt, 12) == 12 &&
           !memcmp(rebuilt, whole, 12));
    char *s = slurp("/proc/self/smaps");
    EXPECT(!s || !strstr(s, "krun-monitor"));
    EXPECT(!s || !*s || strstr(s, "Rss:"));
    s = slurp("/proc/self/statm");
    EXPECT(s && atol(s) > 10);
    unsigned long low = 0, high = 0, stack = (unsigned long)&low;
    for (char *l = whole; l && *l; l = strchr(l, '\n'), l += !!l) {
        sscanf(l, "%lx-%lx", &low, &high);
        if (stack >= low && stack < high)
            EXPECT(strstr(l, "[stack]") && strstr(l, "[stack]") < strchr(l, '\n'));
    }
    return wrong;
}
