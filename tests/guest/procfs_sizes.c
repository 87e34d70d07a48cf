// The sizes in status, stat and statm of the own process and of another one are the payload's (proc(5)).
#include "guest.h"

#define MIB (1L << 20)

// The file in a buffer that no allocation moves or makes.
static char *text(const char *path) {
    static char buffer[8192];
    int fd = (int)open(path, O_RDONLY);
    ssize_t n = read(fd, buffer, sizeof buffer - 1);
    buffer[n > 0 ? n : 0] = 0, close(fd);
    return buffer;
}
static long kilobytes(const char *text, const char *key) {
    const char *p = strstr(text, key);
    EXPECT(p != NULL);
    return p ? strtol(p + strlen(key), NULL, 10) : 0;
}
// KiB of all mappings but the first stack and what the kernel itself maps.
static long mapped(void) {
    long sum = 0;
    unsigned long start, end;
    for (char *line = strtok(text("/proc/self/maps"), "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, "[stack]") && !strstr(line, "[v") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            sum += (long)((end - start) >> 10);
    return sum;
}
// Whether the three texts say the same, with this many MiB resident at least, and a tenth of 32 MiB more at
// most.
static void sizes(const char *who, const char *dir, long resident, int thread) {
    char path[64], *s;
    long size, rss, peak, high, pages, pages_rss, vsize, vrss;
    snprintf(path, sizeof path, "%s/status", dir), s = text(path);
    size = kilobytes(s, "VmSize:"), rss = kilobytes(s, "VmRSS:"), peak = kilobytes(s, "VmPeak:"),
    high = kilobytes(s, "VmHWM:");
    EXPECT(rss == kilobytes(s, "RssAnon:") + kilobytes(s, "RssFile:") + kilobytes(s, "RssShmem:"));
    EXPECT(kilobytes(s, "Threads:") == 1 + thread);
    snprintf(path, sizeof path, "%s/statm", dir), s = text(path);
    EXPECT(sscanf(s, "%ld %ld", &pages, &pages_rss) == 2);
    snprintf(path, sizeof path, "%s/stat", dir), s = strrchr(text(path), ')');
    for (int field = 2; s && field < 23; field++)
        s = strchr(s + 1, ' ');
    EXPECT(s && sscanf(s, "%ld %ld", &vsize, &vrss) == 2);
    EXPECT(pages == size / 4 && vsize / 1024 == size && peak >= size && high >= rss - 1024);
    EXPECT(labs(pages_rss - rss / 4) < 256 &&
           labs(vrss - rss / 4) < 256); // the kernel counts in batches for each CPU
    EXPECT(rss >= resident * 1024 && rss < resident * 1024 + 3277 && size >= rss);
    say("%s: %d", who, wrong);
}
static void *waits(void *fd) {
    char b;
    return (void *)(long)read(*(int *)fd, &b, 1);
}

int main(void) {
    int ready[2], go[2];
    char dir[32], b;
    MUST(pipe(ready)), MUST(pipe(go));
    char *p = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sizes("own, untouched", "/proc/self", 0, 0);
    long before = kilobytes(text("/proc/self/status"), "VmSize:");
    long rest = before - kilobytes(text("/proc/self/status"), "VmStk:") - mapped();
    EXPECT(rest >= 0 && rest <= 64);
    MUST(munmap(p + 48 * MIB, 16 * MIB));
    EXPECT(before - kilobytes(text("/proc/self/status"), "VmSize:") == 16 * 1024);
    pid_t pid = fork();
    if (!pid) {
        pthread_t other = thread(waits, &go[0]);
        memset(p, 1, 32 * MIB);
        MUST(write(ready[1], "r", 1));
        join(other);
        _exit(wrong);
    }
    MUST(read(ready[0], &b, 1));
    snprintf(dir, sizeof dir, "/proc/%d", (int)pid);
    sizes("child", dir, 32, 1);
    MUST(kill(pid, SIGSTOP));
    sizes("stopped child", dir, 32, 1);
    MUST(kill(pid, SIGCONT));
    MUST(write(go[1], "g", 1));
    siginfo_t info;
    MUST(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    snprintf(dir, sizeof dir, "/proc/%d/statm", (int)pid), say("dead: %s", text(dir));
    reap("child", pid);
    memset(p, 1, 32 * MIB);
    sizes("own", "/proc/thread-self", 32, 0);
    return wrong;
}
