// Linux AIO: contexts, reads and writes, vectors, sync, poll, cancel, eventfd, errors in the kernel's order:
// io_submit(2).
#include "guest.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#ifndef IOCB_CMD_POLL
#define IOCB_CMD_POLL 5
#endif
#define setup(n, c) syscall(SYS_io_setup, n, c)
#define destroy(c) syscall(SYS_io_destroy, c)
#define submit(c, n, l) syscall(SYS_io_submit, c, n, l)
#define getevents(c, min, n, e, t) syscall(SYS_io_getevents, c, min, n, e, t)
#define cancel(c, i, e) syscall(SYS_io_cancel, c, i, e)
static aio_context_t ctx;
static struct io_event ev[64];
static struct iocb cb(int op, int fd, void *buf, size_t n, long off) {
    return (struct iocb){.aio_lio_opcode = op,
                         .aio_fildes = fd,
                         .aio_buf = (uintptr_t)buf,
                         .aio_nbytes = n,
                         .aio_offset = off,
                         .aio_data = 77,
                         .aio_key = 9};
}
static void one(const char *what, struct iocb i) { // submit, reap, show
    struct iocb *l[1] = {&i};
    errno = 0;
    long r = submit(ctx, 1, l);
    if (r != 1) {
        say("%s: not taken: %s", what, errno_name(errno));
        return;
    }
    r = getevents(ctx, 1, 1, ev, NULL);
    long res = ev[0].res;
    say("%s: %ld event, %s%s, %s %ld", what, r, ev[0].obj == (uintptr_t)&i ? "mine" : "NOT MINE",
        ev[0].data == 77 && i.aio_key == 0 ? "" : " BAD DATA", res < 0 ? errno_name((int)-res) : "result",
        res < 0 ? -1 : res);
}
static void files(void) {
    char *buf = pages(4), back[64] = "";
    int fd = file_with("f", "0123456789");
    strcpy(buf, "hello");
    one("write", cb(IOCB_CMD_PWRITE, fd, buf, 5, 2));
    one("read", cb(IOCB_CMD_PREAD, fd, back, sizeof back, 0));
    say("%s; position %ld", back, (long)lseek(fd, 0, SEEK_CUR));
    struct iovec v[12];
    for (int i = 0; i < 12; i++)
        v[i] = (struct iovec){buf + 100 * i, 1};
    one("readv", cb(IOCB_CMD_PREADV, fd, v, 12, 0));
    one("writev", cb(IOCB_CMD_PWRITEV, fd, v, 3, 20));
    one("too many vectors", cb(IOCB_CMD_PREADV, fd, v, 1025, 0));
    one("fsync", cb(IOCB_CMD_FSYNC, fd, 0, 0, 0));
    one("fdatasync", cb(IOCB_CMD_FDSYNC, fd, 0, 0, 0));
    one("fsync with a buffer", cb(IOCB_CMD_FSYNC, fd, buf, 1, 0));
    one("at the end", cb(IOCB_CMD_PREAD, fd, back, 5, 1000));
    one("negative offset", cb(IOCB_CMD_PREAD, fd, back, 5, -1));
    one("bad descriptor", cb(IOCB_CMD_PREAD, 999, back, 5, 0));
    one("no such command", cb(99, fd, back, 5, 0));
    one("unmapped buffer", cb(IOCB_CMD_PREAD, fd, (void *)16, 5, 0));
    one("kernel's buffer", cb(IOCB_CMD_PREAD, fd, (void *)0xffffffff80000000, 5, 0));
    one("vector's bad buffer",
        cb(IOCB_CMD_PREADV, fd, (v[0].iov_base = (void *)0xffffffff80000000, v), 1, 0));
    one("bad vector", cb(IOCB_CMD_PREADV, fd, (void *)0xffffffff80000000, 1, 0));
    int ro = MUST(open("f", O_RDONLY)), dir = MUST(open(".", O_RDONLY));
    one("write to a reader", cb(IOCB_CMD_PWRITE, ro, buf, 5, 0));
    one("read a directory", cb(IOCB_CMD_PREAD, dir, back, 5, 0));
    struct iocb bad = cb(IOCB_CMD_PREAD, fd, back, 5, 0);
    bad.aio_reserved2 = 1;
    one("reserved field", bad);
    bad = cb(IOCB_CMD_PREAD, fd, back, 5, 0), bad.aio_rw_flags = 0x40000000;
    one("unknown flag", bad);
    int p[2];
    MUST(pipe(p));
    write(p[1], "pipe", 4);
    one("read a pipe", cb(IOCB_CMD_PREAD, p[0], back, 64, 0));
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    one("read an empty pipe", cb(IOCB_CMD_PREAD, p[0], back, 64, 0));
    int append = MUST(open("f", O_WRONLY | O_APPEND));
    one("append", cb(IOCB_CMD_PWRITE, append, "end", 3, 0));
    struct stat st;
    fstat(fd, &st), say("size %ld", (long)st.st_size);
    close(fd), close(ro), close(dir), close(append);
}
static void many(void) { // several at once, in order of their places; one that fails stops the rest
    int fd = file_with("m", "");
    struct iocb i[40], *l[40];
    char c[40];
    for (int k = 0; k < 40; k++)
        c[k] = 'a' + k % 26, i[k] = cb(IOCB_CMD_PWRITE, fd, c + k, 1, k), i[k].aio_data = k, l[k] = i + k;
    long taken = submit(ctx, 40, l), got = 0, sum = 0;
    while (got < taken) {
        long n = getevents(ctx, 1, 64, ev, NULL);
        for (long k = 0; k < n; k++)
            sum += ev[k].data + (ev[k].obj == (uintptr_t)l[ev[k].data]);
        got += n;
    }
    say("taken %ld, got %ld, sum %ld", taken, got, sum);
    i[2].aio_fildes = 999;
    SHOW(submit(ctx, 40, l)), SHOW(getevents(ctx, 2, 64, ev, NULL));
    l[1] = (void *)16;
    SHOW(submit(ctx, 40, l)), SHOW(getevents(ctx, 1, 64, ev, NULL));
    l[0] = (void *)16;
    SHOW(submit(ctx, 40, l)), SHOW(submit(ctx, 0, l)), SHOW(submit(ctx, -1, l)),
        SHOW(submit(ctx, 1, (void *)16));
    SHOW(submit(ctx, 1, (void *)0xffffffff80000000));
    close(fd);
}
static void notified(void) {
    int fd = file_with("n", "x"), e = MUST(eventfd(0, EFD_NONBLOCK));
    char c;
    uint64_t n = 0;
    struct iocb i = cb(IOCB_CMD_PREAD, fd, &c, 1, 0), *l[] = {&i};
    i.aio_flags = IOCB_FLAG_RESFD, i.aio_resfd = e;
    SHOW(submit(ctx, 1, l)), SHOW(submit(ctx, 1, l));
    getevents(ctx, 2, 2, ev, NULL);
    read(e, &n, 8), say("eventfd counts %d", (int)n);
    i.aio_resfd = fd;
    SHOW(submit(ctx, 1, l));
    i.aio_resfd = 999;
    SHOW(submit(ctx, 1, l));
    close(fd), close(e);
}
static void *feeder(void *a) {
    pause_ms(30);
    write(*(int *)a, "x", 1);
    return NULL;
}
static void polled(void) {
    int p[2];
    MUST(pipe(p));
    struct iocb i = cb(IOCB_CMD_POLL, p[0], (void *)POLLIN, 0, 0), *l[] = {&i};
    struct timespec zero = {0, 0}, some = {0, 20000000};
    SHOW(submit(ctx, 1, l)), SHOW(getevents(ctx, 0, 1, ev, &zero)), SHOW(getevents(ctx, 1, 1, ev, &some));
    pthread_t t = thread(feeder, &p[1]);
    SHOW(getevents(ctx, 1, 1, ev, NULL)), say("events %x", (int)ev[0].res);
    join(t);
    char c;
    read(p[0], &c, 1);
    i.aio_key = 1;
    SHOW(submit(ctx, 1, l)), say("key %u", i.aio_key);
    SHOW(cancel(ctx, &i, ev)), SHOW(getevents(ctx, 1, 1, ev, NULL)),
        say("mine %d", ev[0].obj == (uintptr_t)&i);
    SHOW(cancel(ctx, &i, ev));
    i.aio_key = 5;
    SHOW(cancel(ctx, &i, ev)), SHOW(cancel(ctx, (void *)16, ev));
    i = cb(IOCB_CMD_POLL, p[0], (void *)POLLIN, 1, 0), one("poll with a length", i);
    i = cb(IOCB_CMD_POLL, p[0], (void *)POLLIN, 0, 0);
    SHOW(submit(ctx, 1, l)); // io_destroy cancels it
}
static volatile int got;
static void alarmed(int s) { got++; }
static void masked(void) {
    struct timespec some = {0, 20000000};
    sigset_t none, usr;
    struct {
        void *mask;
        size_t size;
    } sig = {&none, 8};
    sigemptyset(&none), sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    on(SIGUSR1, alarmed, SA_RESTART);
    sigprocmask(SIG_BLOCK, &usr, NULL);
    raise(SIGUSR1);
    SHOW(syscall(SYS_io_pgetevents, ctx, 1, 1, ev, &some, NULL)), say("handled %d", got);
    SHOW(syscall(SYS_io_pgetevents, ctx, 1, 1, ev, &some, &sig)), say("handled %d", got);
    sig.size = 4;
    SHOW(syscall(SYS_io_pgetevents, ctx, 1, 1, ev, &some, &sig));
    sigprocmask(SIG_UNBLOCK, &usr, NULL);
    on(SIGALRM, alarmed, SA_RESTART);
    struct itimerval it = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &it, NULL);
    SHOW(getevents(ctx, 1, 1, ev, NULL)), say("handled %d", got);
}
static void contexts(void) {
    aio_context_t c = 1, d = 0;
    SHOW(setup(4, &c)), c = 0, SHOW(setup(0, &c)), SHOW(setup(4, (void *)16)), SHOW(setup(-1, &c));
    SHOW(setup(4, &c)), SHOW(setup(4, &d));
    say("two ids %d, readable %d", c != d,
        *(volatile int *)c != 0x7fffffff && *(volatile int *)(d + 32) != 0x7fffffff);
    SHOW(getevents(c, 0, 0, ev, NULL)), SHOW(getevents(c, 2, 1, ev, NULL)),
        SHOW(getevents(c, -1, 1, ev, NULL));
    SHOW(getevents(0, 0, 1, ev, NULL)), SHOW(getevents(12345, 0, 1, ev, NULL)), SHOW(destroy(12345));
    reap("fork", CHILD({ // contexts are not inherited
             struct timespec zero = {0, 0};
             SHOW(getevents(c, 0, 1, ev, &zero)), SHOW(destroy(c));
             aio_context_t e = 0;
             SHOW(setup(4, &e)), ctx = e, SHOW(destroy(e));
         }));
    SHOW(destroy(c)), SHOW(destroy(c)), SHOW(getevents(c, 0, 1, ev, NULL)), SHOW(destroy(d));
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    for (int i = 0; i < scaled(20); i++) { // nothing is left of any
        aio_context_t x = 0;
        MUST(setup(128, &x)), MUST(destroy(x));
    }
}
static void *waits(void *a) {
    struct io_event e;
    errno = 0;
    long r = getevents(*(aio_context_t *)a, 1, 1, &e, NULL);
    return (void *)(r < 0 ? (long)errno : r);
}
static void destroyed_under_way(void) {
    aio_context_t c = 0;
    MUST(setup(4, &c));
    pthread_t t = thread(waits, &c);
    pause_ms(50);
    SHOW(destroy(c));
    say("the waiter got %s", errno_name((int)(long)join(t)));
}
static void direct(void) { // the requests that really go on by themselves
    int fd = open("d", O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (fd < 0) {
        say("no O_DIRECT here");
        return;
    }
    char *buf = pages(64), *back = pages(64);
    struct iocb i[16], *l[16];
    for (int k = 0; k < 64; k++)
        memset(buf + k * PAGE, 'a' + k % 26, PAGE);
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < 16; k++)
            i[k] = cb(round ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, fd, (round ? back : buf) + k * 4 * PAGE,
                      4 * PAGE, k * 4 * PAGE),
            l[k] = i + k;
        long taken = submit(ctx, 16, l), sum = 0;
        for (long n = 0; n < taken;) {
            long k = getevents(ctx, 1, 64, ev, NULL);
            for (long j = 0; j < k; j++)
                sum += ev[j].res;
            n += k;
        }
        say("%ld taken, %ld bytes", taken, sum);
    }
    say("same %d", !memcmp(buf, back, 64 * PAGE));
    one("unaligned", cb(IOCB_CMD_PREAD, fd, back + 1, 100, 3));
    close(fd);
}
int main(int argc, char **argv) {
    if (setup(64, &ctx) == -1 && errno == ENOSYS)
        return say("no AIO"), 0;
    files(), many(), notified(), polled();
    SHOW(destroy(ctx)), ctx = 0;
    SHOW(setup(64, &ctx));
    masked(), contexts(), destroyed_under_way(), direct();
    SHOW(destroy(ctx));
    return wrong;
}
