// The own /proc/self/pagemap and clear_refs: entries of touched, untouched and absent pages
// (proc_pid_pagemap(5), proc_pid_clear_refs(5)). krun: host
#include "guest.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#define PRESENT (1ULL << 63)
#define FILE_OR_SHARED (1ULL << 61)

// What the entry of p says, without the frame's number and the bits that depend on the kernel's
// configuration.
static const char *entry(int fd, const void *p) {
    unsigned long long e = 0;
    long n = pread(fd, &e, sizeof e, (off_t)((uintptr_t)p / PAGE * 8));
    return n != 8               ? "no entry"
           : !(e & PRESENT)     ? "absent"
           : e & FILE_OR_SHARED ? "present, file or shared"
                                : "present";
}
static void kinds(int fd) {
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(madvise(p, 4 * PAGE, MADV_NOHUGEPAGE));
    p[0] = p[2 * PAGE] = s[0] = 1;
    MUST(munmap(p + 3 * PAGE, PAGE));
    for (int i = 0; i < 4; i++)
        say("page %d: %s", i, entry(fd, p + i * PAGE));
    say("shared: %s", entry(fd, s));
    MUST(madvise(p, PAGE, MADV_DONTNEED));
    say("dropped: %s, text: %s, stack: %s", entry(fd, p), entry(fd, (void *)kinds), entry(fd, &p));
    say("zero page: %s", entry(fd, NULL));
}
static void positions(int fd) {
    static unsigned long long e[4096];
    char *p = mmap(NULL, 3000 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(madvise(p, 3000 * PAGE, MADV_NOHUGEPAGE));
    for (int i = 0; i < 3000; i += 3)
        p[i * PAGE] = 1;
    off_t at = (off_t)((uintptr_t)p / PAGE * 8);
    int present = 0;
    SHOW(lseek(fd, at, SEEK_SET) == at), SHOW(read(fd, e, 3000 * 8)), SHOW(lseek(fd, 0, SEEK_CUR) - at);
    for (int i = 0; i < 3000; i++)
        present += (e[i] & PRESENT) != 0;
    say("%d of 3000", present);
    SHOW(pread(fd, e, 4, at)), SHOW(pread(fd, e, 8, at + 4)), SHOW(pread(fd, e, 0, at)),
        SHOW(pread(fd, (void *)8, 8, at));
    MUST(munmap(p + PAGE, PAGE));
    SHOW(pread(fd, e, 4100, at)), SHOW(pread(fd, p, 2 * PAGE, at));
    SHOW(lseek(fd, 0, SEEK_END)), SHOW(pread(fd, e, 8, 0x7ffffffff000 / PAGE * 8 + (1 << 20)));
    SHOW(write(fd, e, 8));
}
static void clears(void) {
    int fd = (int)TRY(open("/proc/self/clear_refs", O_WRONLY)), rd;
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), b;
    p[0] = 1;
    SHOW(write(fd, "1", 1)), SHOW(write(fd, "2\n", 2)), SHOW(write(fd, "3", 1)), SHOW(write(fd, "4\n", 2)),
        SHOW(write(fd, "5", 1));
    SHOW(write(fd, "0", 1)), SHOW(write(fd, "6", 1)), SHOW(write(fd, "x", 1)), SHOW(write(fd, "", 0)),
        SHOW(write(fd, (void *)8, 1));
    SHOW(write(fd, "1             ", 14)), SHOW(lseek(fd, 7, SEEK_END)), SHOW(read(fd, &b, 1)),
        SHOW(ioctl(fd, TCGETS, &b));
    p[0] = 2, p[PAGE] = 3;
    EXPECT(p[0] == 2 && p[PAGE] == 3);
    rd = (int)TRY(open("/proc/self/clear_refs", O_RDWR)), SHOW(read(rd, &b, 1)), SHOW(write(rd, "1", 1));
    close(rd), close(fd);
}
// Whether a write after clear_refs marks its page alone, where the kernel has soft-dirty bits at all.
static void soft_dirty(int fd) {
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long long e[2], was;
    off_t at = (off_t)((uintptr_t)p / PAGE * 8);
    int c = open("/proc/self/clear_refs", O_WRONLY);
    p[0] = p[PAGE] = 1;
    EXPECT(pread(fd, e, 16, at) == 16);
    was = e[0] >> 55 & 1;
    EXPECT(write(c, "4", 1) == 1);
    p[PAGE] = 2;
    EXPECT(pread(fd, e, 16, at) == 16);
    say("soft-dirty: %d %d %d", (int)was, (int)(e[0] >> 55 & 1), (int)(e[1] >> 55 & 1));
    close(c);
}

int main(void) {
    int fd = (int)TRY(open("/proc/self/pagemap", O_RDONLY));
    say("number %d", fd), kinds(fd), positions(fd), clears(), soft_dirty(fd);
    SHOW(close(fd)), say("%s", entry(fd, &fd));
    fd = (int)TRY(open("/proc/thread-self/../../pagemap", O_RDONLY)), say("%s", entry(fd, &fd)), close(fd);
    TRY(open("/proc/self/pagemap", O_RDONLY | O_DIRECTORY));
    reap("user", CHILD({
             MUST(setresuid(1000, 1000, 1000)), MUST(prctl(PR_SET_DUMPABLE, 0));
             TRY(open("/proc/self/pagemap", O_RDONLY)), TRY(open("/proc/1/pagemap", O_RDONLY));
             TRY(open("/proc/1/clear_refs", O_WRONLY));
         }));
    return wrong;
}
