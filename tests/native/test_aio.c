/* SPDX-License-Identifier: Apache-2.0
 * sys/aio.c over the kernel's own AIO: random control blocks, most of them wrong. What is taken comes back as
 * an event that names the payload's block, once; no slot is lost; nothing of the monitor's is read or
 * written. Sources: aio.c io.c kr_alloc.c */
#include "harness.h"
#include "sys/aio.h"
#include "sys/table.h"
#include "machine/mm.h"
#include "process/signal.h"
#include <linux/aio_abi.h>
#include <linux/fcntl.h>

#define HIDDEN 700 /* open, and the monitor's */

kr_sys_fn sys_io_setup, sys_io_destroy, sys_io_submit, sys_io_getevents, sys_io_cancel, sys_io_pgetevents;

int kr_guest_fd(u64 fd) { return (u32)fd == HIDDEN ? KR_BAD_FD : (int)fd; }
u64 kr_random(u64 max) { return kr_test_random() % max; }
long kr_mm_mmap(struct kr_mm *mm, u64 addr, u64 len, u32 prot, u32 flags, int fd, u64 off) {
    (void)mm, (void)addr, (void)prot, (void)flags, (void)fd, (void)off;
    return (long)kr_test_window(len);
}
long kr_mm_munmap(struct kr_mm *mm, u64 addr, u64 len) {
    (void)mm;
    return kr_sys2(__NR_munmap, addr, len);
}
long kr_wait_mask_begin(struct kr_task *t, u64 ptr, u64 size, kr_sigset *host) {
    (void)t, (void)size, (void)host;
    return ptr ? -EINVAL : 1;
}
void kr_wait_mask_end(struct kr_task *t) { (void)t; }

static struct kr_task *t;
static u8 *mem;      /* the window: control blocks, pointers to them, events, buffers */
static char *secret; /* above the window, where the kernel puts mappings */
#define BLOCKS 64

static long call(kr_sys_fn *fn, u64 a, u64 b, u64 c, u64 d, u64 e) {
    u64 args[6] = {a, b, c, d, e, 0};
    return fn(t, args);
}

static u64 open_context(u32 n) {
    memset(mem, 0, 8);
    CHECK_EQ(call(sys_io_setup, n, (u64)mem, 0, 0, 0), 0);
    u64 id;
    memcpy(&id, mem, 8);
    CHECK(id && id < KR_WINDOW_END && !*(u32 *)(id + 16)); /* no magic number */
    return id;
}

static u64 some_pointer(void) {
    switch (kr_test_below(6)) {
    case 0:
        return (u64)secret;
    case 1:
        return KR_WINDOW_END - kr_test_below(64);
    case 2:
        return kr_test_random();
    case 3:
        return 16;
    default:
        return (u64)mem + 65536 + kr_test_below(32768);
    }
}

static void fill(struct iocb *io, int fd, u64 data) {
    static const u16 commands[] = {0, 0, 1, 1, 2, 3, 5, 7, 7, 8, 4, 6, 9, 0xffff};
    static const u64 sizes[] = {0, 1, 100, 4096, 1024, 1025, 1 << 20, ~0ULL, 1ULL << 63, 1ULL << 48};
    memset(io, 0, sizeof *io);
    io->aio_data = data;
    io->aio_key = 5;
    io->aio_lio_opcode = commands[kr_test_below(KR_COUNT(commands))];
    io->aio_fildes = kr_test_below(8) ? (u32)fd : kr_test_below(2) ? HIDDEN : (u32)kr_test_random();
    io->aio_buf = some_pointer();
    io->aio_nbytes = sizes[kr_test_below(KR_COUNT(sizes))];
    if (io->aio_lio_opcode >= 7) { /* a vector, somewhere; its elements are anything */
        io->aio_nbytes = kr_test_below(12);
        for (u64 i = 0; i < 24; i++) {
            u64 v = i % 2 ? sizes[kr_test_below(4)] : some_pointer();
            memcpy(mem + 40960 + 8 * i, &v, 8);
        }
        if (kr_test_below(4))
            io->aio_buf = (u64)mem + 40960;
    } else if (io->aio_lio_opcode >= 2 && kr_test_below(2)) {
        io->aio_buf = io->aio_nbytes = 0;
    }
    io->aio_offset = kr_test_below(4) ? (s64)kr_test_below(100000) : (s64)kr_test_random();
    if (!kr_test_below(10))
        io->aio_flags = (u32)kr_test_below(4),
        io->aio_resfd = kr_test_below(2) ? HIDDEN : (u32)kr_test_below(10);
    if (!kr_test_below(10))
        io->aio_rw_flags = (int)kr_test_random();
}

static long pending, taken, refused;

static void reap(u64 id, long least) {
    static u64 zero[2];
    memcpy(mem + 512, zero, 16);
    long n = call(sys_io_getevents, id, (u64)least, 32, (u64)mem + 8192, least ? 0 : (u64)mem + 512);
    CHECK(n >= least && n <= 32);
    for (long i = 0; i < n; i++) {
        struct io_event e;
        memcpy(&e, mem + 8192 + i * (long)sizeof e, sizeof e);
        CHECK_EQ(e.obj, (u64)mem + 16384 + e.data * sizeof(struct iocb));
        pending--;
    }
}

static void random_blocks(void) {
    long fd = kr_sys3(__NR_open, "/tmp", 020200000 | 2 /* O_TMPFILE|O_RDWR */, 0600);
    CHECK(fd >= 0);
    kr_sys3(__NR_dup3, fd, HIDDEN, 0);
    kr_sys2(__NR_ftruncate, fd, 100000);
    u64 id = open_context(BLOCKS);
    for (int round = 0; round < 20000; round++) {
        long n = 1 + (long)kr_test_below(kr_test_below(4) ? 3 : 40);
        for (long i = 0; i < n; i++) {
            u64 at = (u64)mem + 16384 + (u64)i * sizeof(struct iocb),
                ptr = kr_test_below(30) ? at : some_pointer();
            fill((struct iocb *)at, (int)fd, (u64)i);
            if (ptr >= (u64)mem + 65536) /* another block would confuse the check of what comes back */
                ptr = at;
            memcpy(mem + 1024 + 8 * i, &ptr, 8);
        }
        long r = call(sys_io_submit, id, (u64)n, (u64)mem + 1024, 0, 0);
        CHECK(r <= n);
        pending += KR_MAX(r, 0L);
        taken += KR_MAX(r, 0L);
        refused += r < n;
        if (kr_test_below(4) == 0)
            call(sys_io_cancel, id, (u64)mem + 16384 + kr_test_below(4) * sizeof(struct iocb), (u64)mem, 0,
                 0);
        while (pending > BLOCKS / 2)
            reap(id, 1);
    }
    while (pending)
        reap(id, 1);
    reap(id, 0);
    struct kr_aio *c = t->mm->aio;
    CHECK(c != NULL);
    CHECK_EQ(call(sys_io_destroy, id, 0, 0, 0, 0), 0);
    CHECK(t->mm->aio == NULL);
    CHECK(!strcmp(secret, "of the monitor"));
    printf("aio: %ld taken, %ld refused\n", taken, refused);
    CHECK(taken > 2000 && refused > 2000);
    kr_sys1(__NR_close, fd);
    kr_sys1(__NR_close, HIDDEN);
}

/* As many as the ring holds, over and over: a slot that is lost shows. */
static void slots(void) {
    u64 id = open_context(BLOCKS);
    int p[2];
    kr_sys2(__NR_pipe2, p, O_NONBLOCK);
    for (int round = 0; round < 50; round++) {
        long n = 0;
        for (;; n++) {
            struct iocb *io = (struct iocb *)(mem + 16384) + n % BLOCKS;
            *io = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD,
                                .aio_fildes = (u32)p[0],
                                .aio_buf = (u64)mem + 65536,
                                .aio_nbytes = 1,
                                .aio_data = (u64)n % BLOCKS};
            u64 ptr = (u64)io;
            memcpy(mem + 1024, &ptr, 8);
            long r = call(sys_io_submit, id, 1, (u64)mem + 1024, 0, 0);
            if (r != 1) {
                CHECK_EQ(r, -EAGAIN);
                break;
            }
            pending++;
        }
        CHECK(n >= BLOCKS);
        while (pending)
            reap(id, 1);
    }
    CHECK_EQ(call(sys_io_destroy, id, 0, 0, 0, 0), 0);
    CHECK_EQ(call(sys_io_destroy, id, 0, 0, 0, 0), -EINVAL);
    kr_sys1(__NR_close, p[0]);
    kr_sys1(__NR_close, p[1]);
}

/* The child of a fork has no contexts, and nothing of the parent's stays mapped. */
static void after_fork(void) {
    u64 id = open_context(4);
    long pid = kr_sys0(__NR_fork);
    if (pid == 0) {
        kr_aio_after_fork(t->mm);
        long r = call(sys_io_getevents, id, 0, 1, (u64)mem + 8192, 0);
        kr_sys1(__NR_exit_group, r == -EINVAL && !t->mm->aio ? 0 : 1);
    }
    int status = -1;
    kr_sys4(__NR_wait4, pid, &status, 0, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(call(sys_io_destroy, id, 0, 0, 0, 0), 0);
}

void test_main(void) {
    t = kr_test_task();
    secret = (char *)kr_sys6(__NR_mmap, 0, KR_PAGE, 3 /* PROT_READ | PROT_WRITE */,
                             0x22 /* MAP_PRIVATE | MAP_ANONYMOUS */, (u64)-1, 0);
    CHECK((u64)secret >= KR_WINDOW_END);
    memcpy(secret, "of the monitor", 15);
    mem = kr_test_window(1 << 17);
    slots();
    after_fork();
    random_blocks();
}
