// The own /proc/self/mem: memory by its addresses, read-only text included (FOLL_FORCE); proc_pid_mem(5).
// krun: host
#include "guest.h"
#include <sys/prctl.h>

static volatile char data[] = "original";
static NOINLINE int answer(void) { return 41; }

static void text_of(int fd) {
    unsigned char code[64], *p;
    TRY(pread(fd, code, sizeof code, (off_t)answer));
    EXPECT(memcmp(code, (void *)answer, sizeof code) == 0);
    for (p = code; p < code + sizeof code && *p != 41; p++)
        ;
    off_t at = (off_t)answer + (p - code);
    EXPECT(p < code + sizeof code);
    SHOW(pwrite(fd, "\x2a", 1, at));
    SHOW(((int (*volatile)(void))answer)());
    EXPECT(mprotect((void *)((uintptr_t)answer & -PAGE), 1, PROT_READ | PROT_EXEC) == 0); // one mapping again
}
static void kinds(int fd) {
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), b[2 * PAGE];
    char *s = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(p, 'p', 4 * PAGE), munmap(p + 3 * PAGE, PAGE), mprotect(p + PAGE, PAGE, PROT_READ);
    SHOW(pread(fd, b, 2 * PAGE, (off_t)p)), SHOW(pread(fd, b, 2 * PAGE, (off_t)(p + 2 * PAGE)));
    SHOW(pread(fd, b, 1, (off_t)(p + 3 * PAGE))), SHOW(pwrite(fd, b, 1, (off_t)(p + 3 * PAGE)));
    SHOW(pwrite(fd, "new", 3, (off_t)(p + PAGE - 1))), say("%.4s", p + PAGE - 1);
    SHOW(pwrite(fd, "x", 1, (off_t)s)), SHOW(pread(fd, b, 1, (off_t)s));
    SHOW(pread(fd, (void *)8, 1, (off_t)p)), SHOW(pwrite(fd, (void *)8, 1, (off_t)p));
    SHOW(pread(fd, b, 0, 8)), SHOW(pread(fd, b, 8, 8)), SHOW(pread(fd, b, 8, -8));
    int err[2];
    MUST(pipe(err));
    errno = 0, write(err[1], p + PAGE, 1); // still read-only
    SHOW(read(err[0], p + PAGE, 1));
}
static void positions(int fd) {
    char b[8];
    SHOW(lseek(fd, (off_t)data, SEEK_SET) == (off_t)data), SHOW(read(fd, b, 4)), say("%.4s", b);
    SHOW(lseek(fd, 0, SEEK_CUR) == (off_t)data + 4), SHOW(write(fd, "!!", 2)), SHOW(read(fd, b, 2));
    say("%.2s %s", b, (char *)data), SHOW(lseek(fd, 0, SEEK_END)), SHOW(lseek(fd, 0, 7));
    SHOW(lseek(fd, -1, SEEK_SET) == -1 && errno == 0), SHOW(lseek(fd, 1, SEEK_CUR));
}
static void *thread_of(void *path) {
    char b[8];
    int fd = open(path, O_RDONLY);
    say("thread: %zd %.8s", pread(fd, b, 8, (off_t)data), b), close(fd);
    return NULL;
}

int main(void) {
    char path[64], b[8];
    int fd = (int)TRY(open("/proc/self/mem", O_RDWR));
    say("number %d", fd), positions(fd), kinds(fd), text_of(fd);
    int wr = open("/proc/thread-self/mem", O_WRONLY | O_CLOEXEC), rd = open("/proc/self/mem", O_RDONLY);
    SHOW(read(wr, b, 1)), SHOW(pwrite(rd, b, 1, (off_t)data)), SHOW(pread(rd, b, 1, (off_t)data));
    SHOW(fcntl(wr, F_GETFD)), SHOW(fcntl(rd, F_GETFD));
    SHOW(close(wr)), SHOW(close(rd)), SHOW(pread(rd, b, 1, (off_t)data));
    rd = open("/dev/null", O_RDONLY), SHOW(pread(rd, b, 1, (off_t)data)), SHOW(write(rd, b, 1)), close(rd);
    snprintf(path, sizeof path, "/proc/self/task/%d/mem", (int)getpid());
    join(thread(thread_of, path));
    TRY(open("/proc/self/mem", O_RDONLY | O_DIRECTORY)),
        TRY(open("/proc/self/mem", O_RDWR | O_CREAT | O_EXCL));
    rd = open("/proc/self/mem", O_PATH), SHOW(read(rd, b, 1)), close(rd);
    reap("user", CHILD({
             MUST(setresuid(1000, 1000, 1000)), TRY(open("/proc/self/mem", O_RDWR));
             MUST(prctl(PR_SET_DUMPABLE, 1)), rd = (int)TRY(open("/proc/self/mem", O_RDWR));
             SHOW(pread(rd, b, 1, (off_t)data)), TRY(open("/proc/1/mem", O_RDONLY));
         }));
    return wrong;
}
