// What must never be seen from inside: the monitor's descriptors under any number, memory above the window,
// files of the host.  Whoever sees one ends with a status of its own.
#include "fuzz.h"

void check_native(void) {
    volatile char here;
    u64 moment[2] = {0, 200000000};
    if ((u64)&here >= WINDOW_END) {
        RAW(SYS_nanosleep, (u64)moment, 0); // the watcher on the host sees it, too
        quit(SAW_NATIVE);
    }
}

void inspect(void) {
    u64 first = below(2) ? 0 : descriptor() & 0xfff;
    for (u64 fd = first; fd < first + 64; fd++) {
        char name[40], target[256];
        struct stat st;
        if (fstat((int)fd, &st) < 0)
            continue;
        if (st.st_dev == run.monitor[0] && st.st_ino == run.monitor[1])
            quit(SAW_MONITOR);
        snprintf(name, sizeof name, "/proc/self/fd/%d", (int)fd);
        ssize_t n = readlink(name, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        if (strstr(target, "anon_inode:kvm") || strstr(target, "krun-boot") || strstr(target, "/board"))
            quit(SAW_MONITOR);
    }
}

// A pipe of one's own, so that nobody else's data is taken for the monitor's.  Twice: a hostile signal frame may have changed the
// register that the first result was in.
void peek(void) {
    int p[2];
    if (pipe2(p, O_NONBLOCK | O_CLOEXEC) < 0)
        return;
    for (int i = 0; i < 8; i++) {
        u64 at = WINDOW_END + (rnd() & 0x15ffffffffffUL);
        if (!below(3))
            at = (below(2) ? 0x7ffff0000000UL : 0x7f0000000000UL) + (rnd() & 0xfffffff000UL);
        int seen = 0;
        while (seen < 2 && (long)RAW(SYS_write, (u64)p[1], at, 1) > 0)
            seen++;
        if (seen == 2)
            quit(SAW_MEMORY);
        seen = 0;
        while (seen < 2 && write(p[1], "x", 1) == 1 && (long)RAW(SYS_read, (u64)p[0], at, 1) > 0)
            seen++;
        if (seen == 2)
            quit(SAW_MEMORY);
    }
    close(p[0]), close(p[1]);
}

// A directory that is made there the host sees itself.
static void look_at(const char *where) {
    char path[600];
    struct stat st = {0};
    snprintf(path, sizeof path, "%s/../../../../../../../../../..%s/public", where, run.canary);
    int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == run.file[0] && st.st_ino == run.file[1])
        quit(SAW_HOST);
    snprintf(path, sizeof path, "%s/../../../../../../../../../..%s/drop/x", where, run.canary);
    mkdir(path, 0700);
}

void escape(void) {
    static const char *const forms[] = {
        "/proc/%d/fd/%d", "/proc/%d/cwd", "/proc/%d/root", "/proc/self/fd/%2$d", "/proc/%d/task/%1$d/fd/%2$d",
        "/tmp/l%3$d"};
    char where[100];
    if (!run.canary)
        return;
    for (int i = 0; i < 16; i++) {
        snprintf(where, sizeof where, forms[below(COUNT(forms))], (int)process(),
                 (int)(below(2) ? below(24) : descriptor()), (int)below(6));
        look_at(where);
    }
}
