/* SPDX-License-Identifier: Apache-2.0
 * local/sockets.h on real connections: which sockets are owned and when no longer, what of the payload's claims about reads and
 * sends counts, and where a send that fails later shows. Sources: sockets.c enroll.c prefetch.c opened.c accepted.c queue.c rows.c kr_alloc.c */
#include "harness.h"
#include "abi/boot.h"
#include "filter/seccomp.h"
#include "local/sockets.h"
#include "machine/above.h"
#include "machine/fdtab.h"
#include "process/process.h"
#include <asm/poll.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/* ---- the parts that this test does without ---- */

static int allowed = 1;
int kr_seccomp_allows(struct kr_task *t, u32 nr) { return (void)t, (void)nr, allowed; }
void kr_quiesce_kick(struct kr_task *o) { (void)o; }
char *kr_proc_slurp(struct kr_task *o, const char *rel, size_t *size, size_t *len) {
    static const char plain[] = "4294967295\n";
    char *text = kr_alloc(*size = sizeof plain);
    CHECK(!strcmp(rel, "sys/net/ipv4/tcp_notsent_lowat"));
    memcpy(text, plain, sizeof plain);
    *len = sizeof plain - 1;
    return (void)o, text;
}
static u32 questions;
void kr_ask_serve(struct kr_task *o) {
    o->asked &= ~KR_ASKED_QUESTION;
    questions++;
}
static int in_call;
void kr_fd_shut(long fd) { kr_sys1(__NR_close, fd); }
long kr_fd_dup_onto(u64 fd, u64 to, u64 flags) { return kr_sys3(__NR_dup3, fd, to, flags); }
int kr_proc_self_fd(char *buf, size_t size, int fd) {
    kr_snprintf(buf, size, "/proc/self/fd/%d", fd);
    return AT_FDCWD;
}
int kr_fd_in_call(struct kr_mm *mm, u32 fd) { return (void)mm, (void)fd, in_call; }
int kr_pt_sys(struct kr_vm *vm, u64 gva, u64 gpa, u64 flags) {
    return (void)vm, (void)gva, (void)gpa, (void)flags, 0;
}

static struct kr_task *t;
static struct kr_sock_area *area;
static int listener;
static u16 address[8] = {2 /* AF_INET */};

static void call(u64 nr, u64 a0, u64 a1, u64 a2, long ret) {
    t->nr = nr;
    t->args[0] = a0, t->args[1] = a1, t->args[2] = a2;
    kr_sockets_served(t, nr, ret);
}
static void name(u64 nr, u32 fd, u64 a1, u64 a2) {
    t->nr = nr;
    kr_sockets_named(t, fd, (u64[6]){fd, a1, a2});
}
static int owned(u32 fd) { return t->mm->sockets && t->mm->sockets->s[fd].owned; }

/* A connection; s[0] is the payload's end, as accept4 gives it. */
static void connection(int s[2], u32 flags) {
    s[1] = (int)kr_sys3(__NR_socket, 2, 1 | 04000, 0);
    kr_sys3(__NR_connect, s[1], address, 16);
    s[0] = (int)kr_sys4(__NR_accept4, listener, 0, 0, flags);
    CHECK(s[0] >= 0 && s[1] >= 0);
    call(__NR_accept4, (u64)listener, 0, 0, s[0]);
}
static void over(const int s[2]) {
    name(__NR_close, (u32)s[0], 0, 0);
    kr_sys1(__NR_close, s[0]);
    kr_sys1(__NR_close, s[1]);
}
static long peer_gives(const int s[2], const char *data) {
    return kr_sys6(__NR_sendto, (u64)s[1], (u64)data, strlen(data), 0x4000, 0, 0);
}
/* What has arrived at an end. */
static u64 narrived;
static const char *arrived(int fd, int peek) {
    static char b[300000];
    long n = kr_sys6(__NR_recvfrom, (u64)fd, (u64)b, sizeof b - 1, 0x40 | (peek ? 2 : 0), 0, 0);
    narrived = n > 0 ? (u64)n : 0;
    b[narrived] = 0;
    return b;
}
static void drop(void) { /* what a wait forgets */
    t->nr = __NR_poll;
    kr_sockets_call(t);
}
static void look(int fd) {
    struct {
        s32 fd;
        u16 events, revents;
    } p = {fd, POLLIN, 0};
    kr_sys3(__NR_poll, &p, 1, 1000);
    kr_sockets_ready(t, fd, POLLIN);
}
static void ready(int fd) {
    drop();
    look(fd);
}
/* Writes a record as the guest's code does. */
static void put_file(u32 fd, u32 gen, u32 kind, u64 offset, u32 len) {
    struct kr_sock_record r = {fd, len, gen, kind};
    u64 at = area->tail;
    memcpy((u8 *)area->queue + at, &r, sizeof r);
    memcpy((u8 *)area->queue + at + sizeof r, &offset, sizeof offset);
    area->tail = at + sizeof r + (kind == KR_SR_FILE ? 8 : 0);
}
static void put(u32 fd, u32 gen, const char *data, u32 len) {
    struct kr_sock_record r = {fd, len, gen, 0};
    u64 at = area->tail;
    memcpy((u8 *)area->queue + at, &r, sizeof r);
    memcpy((u8 *)area->queue + at + sizeof r, data, len);
    area->tail = at + sizeof r + ((len + 7) & ~7u);
}

/* ---- which sockets ---- */

static void option(int fd, u32 level, u32 opt, s32 value) {
    kr_sys5(__NR_setsockopt, fd, level, opt, &value, 4);
}

static void which(void) {
    int s[2], d = (int)kr_sys3(__NR_socket, 2, 2, 0), u = (int)kr_sys3(__NR_socket, 1, 1, 0),
              six = (int)kr_sys3(__NR_socket, 10, 1, 0);
    call(__NR_socket, 2, 0, 0, d), call(__NR_socket, 1, 0, 0, u);
    CHECK(!owned((u32)d) && !owned((u32)u));
    kr_sys1(__NR_close, d), kr_sys1(__NR_close, u);
    connection(s, 04000);
    CHECK(!owned((u32)s[0]) && !t->local.holder);
    over(s);
    t->proc->flags |= KR_BOOTF_SOCKETS;
    if (six >= 0) {
        call(__NR_socket, 10, 0, 0, six);
        CHECK(owned((u32)six));
        name(__NR_close, (u32)six, 0, 0);
        CHECK(!owned((u32)six));
        kr_sys1(__NR_close, six);
    }
    connection(s, 04000);
    CHECK(owned((u32)s[0]) && t->local.holder);
    area = t->mm->sockets->area;
    over(s);
    CHECK(!owned((u32)s[0]));
    option(listener, 1, 42 /* SO_PEEK_OFF */, 0); /* the connection has it, too */
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    option(listener, 1, 42, -1);
    over(s);
    t->proc->flags |= KR_PROCF_SHARED_FILES;
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    t->proc->flags &= ~KR_PROCF_SHARED_FILES;
    over(s);
    for (int how = 0; how < 3;
         how++) { /* another thread may be closing it; or it has another option by then */
        t->proc->refs = 2, in_call = how == 1;
        option(listener, 1, 18 /* SO_RCVLOWAT */, how == 2 ? 4 : 1);
        connection(s, 04000);
        CHECK_EQ(owned((u32)s[0]), how == 0);
        over(s);
    }
    t->proc->refs = 1;
    option(listener, 1, 18, 1);
    option(listener, 6, 25 /* TCP_NOTSENT_LOWAT */, 1);
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    option(listener, 6, 25, 0);
    over(s);
    kr_sockets_clone(t, 1); /* as close_range(2) of another thread */
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    kr_sockets_clone(t, 0);
    over(s);
    kr_sockets_call(t); /* a call that begins after it */
}

static void names(void) {
    static const struct {
        u16 nr, stays;
        u64 a1, a2;
    } calls[] = {{__NR_read, 1, 0, 0},
                 {__NR_write, 1, 0, 0},
                 {__NR_sendto, 1, 0, 0},
                 {__NR_epoll_ctl, 1, 0, 0},
                 {__NR_fcntl, 1, F_GETFL, 0},
                 {__NR_fcntl, 1, F_SETFL, 04000},
                 {__NR_fcntl, 0, F_SETFL, 020000},
                 {__NR_fcntl, 0, F_DUPFD, 0},
                 {__NR_fcntl, 0, F_DUPFD_CLOEXEC, 0},
                 {__NR_fcntl, 0, F_SETOWN, 0},
                 {__NR_dup, 0, 0, 0},
                 {__NR_dup2, 0, 0, 0},
                 {__NR_setsockopt, 1, 6, 1},
                 {__NR_setsockopt, 0, 6, 31},
                 {__NR_setsockopt, 0, 1, 42},
                 {__NR_setsockopt, 0, 1, 60},
                 {__NR_shutdown, 0, 0, 0},
                 {__NR_splice, 0, 0, 0},
                 {__NR_ioctl, 1, 0x5421, 0},
                 {__NR_ioctl, 0, 0x5452, 0},
                 {__NR_close, 0, 0, 0},
                 {__NR_sendmsg, 1, 0, 0x40},
                 {__NR_sendmsg, 0, 0, 0x4000000},
                 {461, 0, 0, 0}};
    for (u32 i = 0; i < KR_COUNT(calls); i++) {
        int s[2];
        connection(s, 04000);
        peer_gives(s, "abc");
        ready(s[0]);
        CHECK_EQ(area->entry[s[0]].len, 3);
        CHECK(area->entry[s[0]].credit > 0);
        name(calls[i].nr, (u32)s[0], calls[i].a1, calls[i].a2);
        if (owned((u32)s[0]) != calls[i].stays)
            printf("call %u\n", calls[i].nr);
        CHECK_EQ(owned((u32)s[0]), calls[i].stays);
        CHECK_EQ(area->entry[s[0]].len, 0);
        CHECK_EQ(area->entry[s[0]].credit, 0);
        over(s);
    }
    int s[2];
    connection(s, 04000);
    kr_sockets_passed(t, (u32)s[0]);
    CHECK(!owned((u32)s[0]));
    over(s), connection(s, 04000);
    kr_sockets_forget(t);
    CHECK(!owned((u32)s[0]));
    over(s);
}

/* Another thread of the process: the socket is out, what was done inside the guest counts first. */
static void meddles(void) {
    struct kr_task other = {.proc = t->proc, .mm = t->mm, .nr = __NR_read};
    int s[2];
    connection(s, 04000);
    peer_gives(s, "abcdef");
    ready(s[0]);
    area->used[s[0]] = 2;
    put((u32)s[0], area->entry[s[0]].gen, "answer", 6);
    kr_sockets_named(&other, (u32)s[0], (u64[6]){(u32)s[0]});
    CHECK(!owned((u32)s[0]));
    CHECK_STR(arrived(s[1], 0), "answer");
    CHECK_STR(arrived(s[0], 0), "cdef");
    over(s);
    for (u32 i = 0; i < KR_SOCKETS_MEDDLED; i++) {
        connection(s, 04000);
        kr_sockets_named(&other, (u32)s[0], (u64[6]){(u32)s[0]});
        over(s);
    }
    connection(s, 04000);
    CHECK(!owned((u32)s[0])); /* too often */
    over(s);
    t->mm->sockets->meddled = 0;
}

/* ---- reads and sends ---- */

static void reads(void) {
    int s[2];
    connection(s, 04000);
    peer_gives(s, "abcdefgh");
    ready(s[0]);
    struct kr_sock_entry *e = &area->entry[s[0]];
    CHECK(e->len == 8 && e->whole && !memcmp(area->data + e->off, "abcdefgh", 8));
    area->used[s[0]] = 3;
    kr_sockets_left(t);
    CHECK(e->len == 8 && !e->whole);
    CHECK_STR(arrived(s[0], 1), "defgh");
    area->used[s[0]] = 1; /* forged: nothing comes back */
    kr_sockets_left(t);
    area->used[s[0]] = 5;
    kr_sockets_left(t);
    CHECK_STR(arrived(s[0], 1), "fgh");
    peer_gives(s, "ijk");
    area->used[s[0]] = ~0ULL; /* no more than was looked at */
    kr_sockets_left(t);
    CHECK_STR(arrived(s[0], 1), "ijk");
    ready(s[0]);
    CHECK(e->len == 3 && e->whole);
    allowed = 0;
    ready(s[0]);
    CHECK(e->len == 0 && e->credit == 0);
    allowed = 1;
    over(s);
    connection(s, 04000);
    static char big[KR_SOCK_MOST + 10];
    memset(big, 'b', sizeof big - 1);
    peer_gives(s, big);
    ready(s[0]);
    e = &area->entry[s[0]];
    CHECK(e->len == KR_SOCK_MOST && !e->whole); /* there is more */
    over(s);
}

/* Whether a socket has no more bytes is asked again at each entry, for the next two that have been ready. */
static void fresh(void) {
    int s[3][2];
    struct kr_sock_entry *e[3];
    drop();
    for (u32 i = 0; i < 3; i++) {
        connection(s[i], 04000);
        e[i] = &area->entry[s[i][0]];
        peer_gives(s[i], "abcd");
    }
    for (u32 i = 0; i < 3; i++)
        look(s[i][0]);
    CHECK(e[0]->whole && e[1]->whole && e[2]->whole);
    kr_sockets_left(t);
    CHECK(!e[0]->whole && !e[1]->whole && !e[2]->whole);
    peer_gives(s[1], "more");
    kr_sockets_enter(t);
    CHECK(e[0]->whole && !e[1]->whole && !e[2]->whole);
    area->used[s[0][0]] = 3;
    area->used[s[1][0]] = 4;
    kr_sockets_left(t);
    kr_sockets_enter(t);
    CHECK(e[0]->whole && !e[1]->whole && e[2]->whole); /* the second has been read */
    area->used[s[0][0]] = 4;
    kr_sockets_left(t);
    CHECK(!e[0]->whole);
    t->window.share = 0; /* no call is completed */
    kr_sockets_enter(t);
    CHECK(!e[2]->whole);
    t->window.share = KR_WINDOW_ALL;
    struct kr_task other = {.proc = t->proc, .mm = t->mm};
    kr_sockets_enter(t);
    CHECK(e[2]->whole);
    kr_sockets_left(&other);
    kr_sockets_enter(&other); /* it may know of more bytes */
    CHECK(!e[2]->whole);
    kr_sockets_left(t);
    for (u32 i = 0; i < 3; i++)
        over(s[i]);
}

static void sends(void) {
    int s[2], b[2];
    connection(s, 04000);
    connection(b, 0);
    peer_gives(s, "?"), peer_gives(b, "?");
    ready(b[0]);
    CHECK(area->entry[b[0]].len == 1 &&
          area->entry[b[0]].credit); /* also of one that may block: there is room */
    ready(s[0]);
    u32 gen = area->entry[s[0]].gen, credit = area->entry[s[0]].credit;
    put((u32)s[0], gen, "one ", 4), put((u32)s[0], gen, "two ", 4);
    put((u32)s[0], gen + 1, "another socket's", 16);
    put((u32)b[0], area->entry[b[0]].gen, "no credit", 9);
    put((u32)s[0], gen, "three", 5);
    kr_sockets_left(t);
    CHECK_EQ(area->tail, 0);
    CHECK_STR(arrived(s[1], 0), "one two three");
    CHECK_STR(arrived(b[1], 0), "");
    CHECK_EQ(area->entry[s[0]].credit, credit - 13 - 3 * KR_SOCK_SKB);
    static char data[KR_SOCK_MOST];
    memset(data, 'd', sizeof data);
    for (u32 i = 0; i < 50; i++) { /* beyond the credit */
        put((u32)s[0], gen, data, 12000);
        kr_sockets_left(t);
    }
    drop();
    u64 most = 0;
    while (arrived(s[1], 0), narrived)
        most += narrived;
    CHECK(most > 0 && most <= credit);
    over(s), over(b);
}

/* ---- where the kernel takes less than there was room for ---- */

/* A connection with credit, whose send buffer is then made small and filled. The bytes that are on their way. */
static u64 stuffed(int s[2], u32 flags) {
    static char data[KR_SOCK_MOST];
    u64 bytes = 0;
    s32 small = 1;
    connection(s, flags);
    peer_gives(s, "?");
    ready(s[0]);
    CHECK(area->entry[s[0]].credit);
    kr_sys5(__NR_setsockopt, s[0], 1, 7 /* SO_SNDBUF */, &small, sizeof small);
    const s64 moment[2] = {0, 50000000};
    for (u64 was = ~0ULL; was != bytes; kr_sys2(__NR_nanosleep, moment, 0)) { /* and the peer's window */
        was = bytes;
        for (long n; (n = kr_sys6(__NR_sendto, (u64)s[0], (u64)data, sizeof data, 0x40, 0, 0)) > 0;)
            bytes += (u64)n;
    }
    return bytes;
}

/* Another process takes `bytes` bytes, but not within the first second. Its pid; it ends with 0. */
static int slow_reader(int fd, u64 bytes) {
    const s64 moment[2] = {1, 400000000};
    long child = kr_sys0(__NR_fork);
    if (child)
        return (int)child;
    kr_sys2(__NR_nanosleep, moment, 0);
    struct {
        s32 fd;
        u16 events, revents;
    } p = {fd, POLLIN, 0};
    for (u64 got = 0; got < bytes; got += narrived)
        if (kr_sys3(__NR_poll, &p, 1, 60000) != 1 || (arrived(fd, 0), !narrived))
            kr_sys1(__NR_exit_group, 1);
    kr_sys1(__NR_exit_group, 0);
    return 0;
}

/* The kernel says that there is room, and takes nothing, as it does without memory for TCP: this ends, too. */
static int no_memory(int fd) {
    struct sock_filter f[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                              {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, __NR_sendmsg},
                              {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EAGAIN},
                              {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog filter = {KR_COUNT(f), f};
    s32 status = -1;
    long child = kr_sys0(__NR_fork), ret = 0;
    if (!child) {
        kr_sys1(__NR_alarm, 30);
        kr_sys5(__NR_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0);
        kr_sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
        put((u32)fd, area->entry[fd].gen, "never", 5);
        kr_sockets_left(t);
        t->nr = __NR_write;
        kr_sys1(__NR_exit_group,
                !kr_sockets_fails(t, (u32)fd, (u64[6]){(u32)fd}, &ret) || ret != -ECONNRESET);
    }
    kr_sys4(__NR_wait4, child, &status, 0, 0);
    return status;
}

static void slow(void) {
    int s[2], status = -1;
    long ret;
    u64 bytes = stuffed(s, 0), a[6] = {(u32)s[0]};
    int child = slow_reader(s[1], bytes + 5);
    put((u32)s[0], area->entry[s[0]].gen, "later", 5);
    kr_self()->asked = KR_ASKED_QUESTION;
    kr_sockets_left(t); /* it waits, as the call would have */
    kr_sys4(__NR_wait4, child, &status, 0, 0);
    CHECK(status == 0 && questions == 1);
    t->nr = __NR_write;
    CHECK(!kr_sockets_fails(t, (u32)s[0], a, &ret));
    over(s);
    /* a nonblocking one, a limit of the socket's own, a handler that is to run */
    for (u32 how = 0; how < 3; how++) {
        s64 limit[2] = {100, 0};
        stuffed(s, how == 0 ? 04000 : 0);
        a[0] = (u32)s[0];
        if (how == 1)
            kr_sys5(__NR_setsockopt, s[0], 1, 21 /* SO_SNDTIMEO */, limit, sizeof limit);
        kr_self()->sig_caught = how == 2;
        put((u32)s[0], area->entry[s[0]].gen, "never", 5);
        kr_sockets_left(t);
        kr_self()->sig_caught = 0;
        t->nr = __NR_write;
        CHECK(kr_sockets_fails(t, (u32)s[0], a, &ret) && ret == -ECONNRESET);
        over(s);
    }
    connection(s, 04000);
    peer_gives(s, "?");
    ready(s[0]);
    CHECK_EQ(no_memory(s[0]), 0);
    over(s);
    /* beside another thread, which the wait would hold up, a blocking socket has no credit */
    connection(s, 0);
    peer_gives(s, "?");
    ready(s[0]);
    CHECK(area->entry[s[0]].credit && area->entry[s[0]].len);
    kr_sockets_thread(t);
    CHECK(!area->entry[s[0]].credit);
    t->proc->refs = 2;
    ready(s[0]);
    CHECK(!area->entry[s[0]].credit && area->entry[s[0]].len);
    t->proc->refs = 1;
    over(s);
}

/* ---- files ---- */

static int opened(const char *path, u32 flags) {
    int fd = (int)kr_sys4(__NR_openat, AT_FDCWD, path, flags & ~020000000u, 0600);
    CHECK(fd >= 0);
    t->nr = __NR_openat;
    t->args[0] = (u64)AT_FDCWD, t->args[1] = (u64)path, t->args[2] = flags;
    kr_file_path(t, path);
    kr_sockets_served(t, __NR_openat, fd);
    kr_sockets_enter(t);
    return fd;
}
static int is_open(int fd) { return kr_sys3(__NR_fcntl, fd, F_GETFD, 0) >= 0; }

static void which_files(void) {
    static const struct {
        const char *path;
        u32 flags, offered;
    } files[] = {{"file", O_RDONLY, 1},
                 {"file", O_RDONLY | O_CLOEXEC | O_NONBLOCK, 1},
                 {"file", O_RDONLY | O_NOATIME, 1},
                 {"file", O_RDWR, 0},
                 {"file", O_WRONLY, 0},
                 {"file", O_RDONLY | O_CREAT, 0},
                 {"file", O_PATH, 0},
                 {"file", O_RDONLY | 020000000u /* unknown */, 0},
                 {".", O_RDONLY, 0},
                 {"/dev/null", O_RDONLY, 0},
                 {"/proc/self/stat", O_RDONLY, 0}};
    for (u32 i = 0; i < KR_COUNT(files); i++)
        for (u32 how = 0; how < 5; how++) {
            allowed = how != 1;
            t->proc->refs = how == 2 ? 2 : 1;
            t->proc->flags |= how == 3 ? KR_PROCF_SHARED_FILES : how == 4 ? KR_PROCF_LENT : 0;
            int fd = opened(files[i].path, files[i].flags);
            if ((area->file.gen != 0) != (files[i].offered && !how))
                printf("%s %o %u\n", files[i].path, files[i].flags, how);
            CHECK_EQ(area->file.gen != 0, files[i].offered && !how);
            t->proc->refs = 1, allowed = 1;
            t->proc->flags &= ~(KR_PROCF_SHARED_FILES | KR_PROCF_LENT);
            kr_sockets_left(t);
            CHECK_EQ(area->file.gen, 0);
            kr_sys1(__NR_close, fd);
        }
    t->window.share = 0; /* calls on it would be completed if they were the most */
    int fd = opened("file", O_RDONLY);
    CHECK_EQ(area->file.gen, 0);
    t->local.named_own = 0;
    name(__NR_fstat, (u32)fd + 1, 0, 0);
    CHECK(!t->local.named_own);
    name(__NR_fstat, (u32)fd, 0, 0);
    CHECK(t->local.named_own);
    t->window.share = KR_WINDOW_ALL;
    kr_sys1(__NR_close, fd);
}

static void exits(u32 nr, int fd, int second) {
    t->nr = nr, t->args[0] = (u64)fd, t->args[1] = (u64)second;
    kr_sockets_call(t);
    kr_sockets_served(t, nr, -EAGAIN);
}

/* Records that close the file and open it again. */
static void again(const int s[2], u32 gen) {
    for (u32 ends_open = 0; ends_open < 2; ends_open++) {
        int fd = opened("file", O_RDONLY | O_NONBLOCK);
        u32 file = area->file.gen;
        long flags = kr_sys3(__NR_fcntl, fd, F_GETFL, 0);
        CHECK(!strcmp(area->file.path, "file") && area->file.path_size == 5 &&
              area->file.dirfd == (u32)AT_FDCWD);
        CHECK(area->file.flags == (O_RDONLY | O_NONBLOCK));
        put_file((u32)fd, file, KR_SR_OPEN, 0, 0); /* it is open */
        put_file((u32)s[0], gen, KR_SR_FILE, 0, 2);
        kr_sys3(__NR_lseek, fd, 4, 0); /* to know it by */
        for (u32 i = 0; i < 3; i++) {
            put_file((u32)fd, file, KR_SR_CLOSE, 0, 0);
            put_file((u32)fd, file - 1, KR_SR_OPEN, 0, 0); /* another file */
            put_file((u32)s[0], gen, KR_SR_FILE, 0, 1);    /* there is none */
            put_file((u32)fd, file, KR_SR_OPEN, 0, 0);
            put_file((u32)s[0], gen, KR_SR_FILE, i + 2, 2);
        }
        if (!ends_open)
            put_file((u32)fd, file, KR_SR_CLOSE, 0, 0);
        kr_sockets_left(t);
        CHECK_STR(arrived(s[1], 0), "01233445");
        CHECK_EQ(is_open(fd), (int)ends_open);
        CHECK(!is_open(fd + 1) || s[1] > fd);
        if (ends_open) { /* a description of its own, as open(2) gives it */
            CHECK_EQ(kr_sys3(__NR_lseek, fd, 0, 1), 0);
            CHECK_EQ(kr_sys3(__NR_fcntl, fd, F_GETFL, 0), flags);
            CHECK_EQ(kr_sys3(__NR_fcntl, fd, F_GETFD, 0), 0);
        }
        put_file((u32)fd, file, KR_SR_CLOSE, 0, 0), put_file((u32)fd, file, KR_SR_OPEN, 0, 0);
        kr_sockets_left(t); /* the exit was before */
        CHECK_EQ(is_open(fd), (int)ends_open);
        kr_sys1(__NR_close, fd);
    }
    int fd = opened("file", O_RDONLY | O_NOFOLLOW); /* not again */
    CHECK_EQ(area->file.path_size, 0);
    put_file((u32)fd, area->file.gen, KR_SR_CLOSE, 0, 0);
    put_file((u32)fd, area->file.gen, KR_SR_OPEN, 0, 0);
    kr_sockets_left(t);
    CHECK(!is_open(fd));
}

static void files(void) {
    int s[2], f = (int)kr_sys4(__NR_openat, AT_FDCWD, "file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    static u8 stat[144];
    CHECK_EQ(kr_sys3(__NR_write, f, "0123456789", 10), 10);
    connection(s, 04000);
    which_files();
    peer_gives(s, "?");
    ready(s[0]);
    u32 gen = area->entry[s[0]].gen;
    int fd = opened("file", O_RDONLY);
    kr_sys2(__NR_fstat, fd, stat);
    CHECK(area->file.fd == (u32)fd && area->file.size == 10 && !memcmp(stat, area->file.stat, sizeof stat));
    put((u32)s[0], gen, "head ", 5), put_file((u32)s[0], gen, KR_SR_FILE, 2, 4),
        put((u32)s[0], gen, " and ", 5);
    put_file((u32)s[0], gen, KR_SR_FILE, 0, 3);
    put_file((u32)fd, area->file.gen, KR_SR_CLOSE, 0, 0);
    put_file((u32)s[0], gen, KR_SR_FILE, 0, 3); /* there is no file any more */
    put((u32)s[0], gen, " end", 4);
    CHECK(is_open(fd));
    kr_sockets_left(t);
    CHECK(!is_open(fd) && area->file.gen == 0);
    CHECK_STR(arrived(s[1], 0), "head 2345 and 012 end");
    /* forged: another file's number, another descriptor; later than the next exit */
    fd = opened("file", O_RDONLY);
    put_file((u32)fd, area->file.gen - 1, KR_SR_CLOSE, 0, 0);
    kr_sockets_left(t);
    put_file((u32)fd, t->mm->sockets->file.files, KR_SR_CLOSE, 0, 0);
    put_file((u32)s[0], gen, KR_SR_FILE, 0, 3);
    kr_sockets_left(t);
    CHECK(is_open(fd));
    kr_sys1(__NR_close, fd);
    fd = opened("file", O_RDONLY);
    put_file((u32)f, area->file.gen, KR_SR_CLOSE, 0, 0); /* the file's own number counts */
    kr_sockets_left(t);
    CHECK(is_open(f) && !is_open(fd));
    CHECK_STR(arrived(s[1], 0), "");
    again(s, gen);
    /* it stays the file behind exits that are no call, or read it; not behind others */
    fd = opened("file", O_RDONLY);
    for (u32 i = 0; i < 6; i++) {
        static const u32 calls[] = {0, __NR_sendfile, __NR_pread64, __NR_read, __NR_getpid, 0};
        kr_sockets_left(t);
        if (calls[i])
            exits(calls[i], calls[i] == __NR_sendfile ? 0 : fd, fd);
        kr_sockets_enter(t);
        CHECK_EQ(area->file.gen != 0, i < 4);
        CHECK(i >= 4 || (area->file.fd == (u32)fd && !area->file.path_size));
    }
    kr_sockets_left(t);
    CHECK(is_open(fd));
    kr_sys1(__NR_close, fd);
    fd = opened("file", O_RDONLY);
    kr_sockets_left(t);
    exits(__NR_pread64, fd + 1, fd), kr_sockets_enter(t);
    CHECK_EQ(area->file.gen, 0);
    kr_sys1(__NR_close, fd);
    /* it becomes shorter meanwhile */
    fd = opened("file", O_RDONLY);
    kr_sys2(__NR_ftruncate, f, 3);
    put((u32)s[0], gen, "head ", 5), put_file((u32)s[0], gen, KR_SR_FILE, 2, 4);
    put_file((u32)fd, area->file.gen, KR_SR_CLOSE, 0, 0);
    kr_sockets_left(t);
    CHECK(!is_open(fd) && !owned((u32)s[0]));
    u64 a[6] = {(u32)s[0], 0, 1};
    long ret = 0;
    t->nr = __NR_write;
    CHECK(kr_sockets_fails(t, (u32)s[0], a, &ret) && ret == -ECONNRESET);
    kr_sys1(__NR_close, f);
    over(s);
}

/* The connection that was accepted last: what is known of it, and what of its close counts. */
static void accepted(void) {
    struct kr_sock_accepted *a = &area->accepted;
    int s[2], two[2];
    u16 name16[14];
    u32 len = sizeof name16;
    connection(s, 02000000);
    kr_sockets_enter(t);
    kr_sys3(__NR_getsockname, s[0], name16, &len);
    CHECK(a->gen && a->fd == (u32)s[0] && a->closes && a->fd_flags == 1 && a->flags == 2 && !a->nonblock);
    CHECK(a->name.fd == (u32)s[0] && a->name.len == len && !memcmp(a->name.addr, name16, len));
    CHECK(a->listener.fd == (u32)listener && a->listener.len == len &&
          !memcmp(a->listener.addr, name16, len));
    CHECK(area->entry[s[0]].credit);
    put((u32)s[0], area->entry[s[0]].gen, "bye", 3);
    put_file((u32)s[0], a->gen - 1, KR_SR_LEAVE, 0, 0); /* another one's */
    put_file((u32)listener, a->gen, KR_SR_LEAVE, 0, 0); /* the connection's own number counts */
    put((u32)s[0], area->entry[s[0]].gen, "late", 4);
    CHECK(is_open(s[0]));
    kr_sockets_left(t);
    CHECK(!is_open(s[0]) && is_open(listener) && !a->gen && !owned((u32)s[0]));
    CHECK_STR(arrived(s[1], 0), "bye");
    kr_sys1(__NR_close, s[1]);
    /* once, and not without the facts */
    connection(s, 04000);
    u32 gen = t->mm->sockets->accepted.count;
    put_file((u32)s[0], gen, KR_SR_LEAVE, 0, 0), put_file((u32)s[0], gen + 1, KR_SR_LEAVE, 0, 0);
    kr_sockets_left(t);
    CHECK(is_open(s[0]));
    kr_sockets_enter(t);
    CHECK(a->gen && a->flags == 04002 && a->nonblock && !a->fd_flags);
    kr_sockets_left(t);
    /* calls that could change the facts end them, others do not */
    for (u32 i = 0; i < 6; i++) {
        static const u32 calls[] = {__NR_recvfrom, __NR_fchmod, __NR_setsockopt,
                                    __NR_fcntl,    __NR_dup2,   __NR_ioctl};
        u32 was;
        connection(two, 0);
        kr_sockets_enter(t), kr_sockets_left(t);
        was = a->gen;
        t->nr = calls[i];
        t->args[1] = F_GETFL;
        kr_sockets_call(t);
        kr_sockets_enter(t);
        CHECK_EQ(a->gen != 0, i != 4);
        CHECK_EQ(a->gen == was, i < 2); /* else they were asked for anew */
        kr_sockets_left(t);
        over(two);
    }
    connection(two, 0);
    kr_sockets_enter(t), kr_sockets_left(t);
    drop();
    kr_sockets_enter(t);
    CHECK(a->gen && !a->listener.len && a->name.len);
    kr_sockets_left(t);
    over(two);
    /* SO_LINGER, a process that has another thread, a socket that somebody else has */
    s32 linger[2] = {1, 0};
    connection(two, 0);
    kr_sys5(__NR_setsockopt, two[0], 1, 13, linger, sizeof linger);
    kr_sockets_enter(t);
    CHECK(a->gen && !a->closes);
    put_file((u32)two[0], a->gen, KR_SR_LEAVE, 0, 0); /* a forged one */
    kr_sockets_left(t);
    CHECK(is_open(two[0]));
    t->proc->refs = 2;
    kr_sockets_enter(t);
    CHECK(!a->gen);
    kr_sockets_left(t);
    t->proc->refs = 1;
    over(two);
    connection(two, 0);
    kr_sockets_passed(t, (u64)two[0]);
    kr_sockets_enter(t);
    CHECK(!a->gen);
    kr_sockets_left(t);
    over(two);
    over(s);
    /* bytes that came before it, at the same place for each connection */
    for (u32 i = 0; i < 3; i++) {
        s[1] = (int)kr_sys3(__NR_socket, 2, 1, 0);
        kr_sys3(__NR_connect, s[1], address, 16);
        peer_gives(s, "early");
        s[0] = (int)kr_sys4(__NR_accept4, listener, 0, 0, 0);
        call(__NR_accept4, (u64)listener, 0, 0, s[0]);
        CHECK(area->entry[s[0]].len == 5 && area->entry[s[0]].whole && area->entry[s[0]].off == 0);
        kr_sockets_enter(t);
        area->used[s[0]] = 5;
        kr_sockets_left(t);
        CHECK_STR(arrived(s[0], 1), "");
        over(s);
    }
}

static void errors(void) {
    struct {
        s32 on, seconds;
    } linger = {1, 0};
    for (int how = 0; how < 3; how++) {
        int s[2];
        long ret = 1;
        s32 *value = kr_test_window(KR_PAGE); /* error, length */
        value[0] = -1, value[1] = 4;
        connection(s, 04000);
        peer_gives(s, how == 2 ? "?!" : "?");
        ready(s[0]);
        u32 gen = area->entry[s[0]].gen;
        kr_sys5(__NR_setsockopt, s[1], 1, 13 /* SO_LINGER */, &linger, sizeof linger);
        kr_sys1(__NR_close, s[1]);
        area->used[s[0]] = 1;
        put((u32)s[0], gen, "lost", 4), put((u32)s[0], gen, "too", 3);
        kr_sockets_left(t);
        t->nr = how ? __NR_read : __NR_write;
        u64 a[6] = {(u32)s[0], 0, 1};
        if (how == 2) { /* a byte comes first */
            CHECK(!kr_sockets_fails(t, (u32)s[0], a, &ret));
            CHECK_STR(arrived(s[0], 0), "!");
        }
        if (how == 1) {
            u64 o[6] = {(u32)s[0], 1, 4 /* SO_ERROR */, (u64)value, (u64)&value[1]};
            t->nr = __NR_getsockopt;
            CHECK(kr_sockets_fails(t, (u32)s[0], o, &ret));
            CHECK(ret == 0 && value[0] == ECONNRESET && value[1] == 4);
        } else {
            CHECK(kr_sockets_fails(t, (u32)s[0], a, &ret));
            CHECK_EQ(ret, -ECONNRESET);
        }
        CHECK(!kr_sockets_fails(t, (u32)s[0], a, &ret)); /* once */
        name(__NR_close, (u32)s[0], 0, 0);
        kr_sys1(__NR_close, s[0]);
    }
    /* A look at a socket with an error takes the error. */
    int s[2];
    long ret;
    connection(s, 04000);
    kr_sys5(__NR_setsockopt, s[1], 1, 13, &linger, sizeof linger);
    kr_sys1(__NR_close, s[1]);
    ready(s[0]);
    t->nr = __NR_read;
    CHECK(kr_sockets_fails(t, (u32)s[0], (u64[6]){(u32)s[0]}, &ret) && ret == -ECONNRESET);
    name(__NR_close, (u32)s[0], 0, 0);
    kr_sys1(__NR_close, s[0]);
}

/* Random memory. One connection has credit, another one none; the pipe is no socket. */
static void anything(void) {
    int s[2], b[2], pipe[2];
    connection(s, 04000);
    connection(b, 04000);
    kr_sys2(__NR_pipe2, pipe, 04000);
    u64 granted = 0, sent = 0, given = 0, taken = 0;
    for (u32 round = 0; round < 3000; round++) {
        if (round % 8 == 0) {
            given += (u64)(peer_gives(s, "some bytes") > 0) * 10;
            ready(s[0]);
            granted += area->entry[s[0]].credit;
        }
        u32 words = (u32)kr_test_below(300);
        for (u32 i = 0; i < words; i++)
            ((volatile u32 *)area->queue)[kr_test_below(words)] =
                (u32[]){(u32)s[0],
                        (u32)b[0],
                        (u32)pipe[1],
                        area->entry[s[0]].gen,
                        area->entry[b[0]].gen,
                        8,
                        (u32)kr_test_below(100),
                        (u32)kr_test_random()}[kr_test_below(8)];
        if (kr_test_below(2))
            for (u32 i = 0; i < 8; i++) { /* some are right */
                u32 kind = kr_test_below(4) ? KR_SR_DATA : (u32)kr_test_below(4);
                struct kr_sock_record r = {(u32)(kr_test_below(3) ? s[0] : b[0]), kind >= KR_SR_CLOSE ? 0 : 8,
                                           area->entry[s[0]].gen, kind};
                memcpy((u8 *)area->queue + 24 * kr_test_below(20), &r, sizeof r);
            }
        int fd = kr_test_below(2) ? opened("file", O_RDONLY) : -1; /* its size is 3 */
        area->tail = kr_test_below(4) ? 24 * kr_test_below(20) : kr_test_random();
        area->used[s[0]] = kr_test_below(2) ? kr_test_below(12) : kr_test_random();
        area->spent[s[0]] = kr_test_random();
        kr_sockets_left(t);
        if (fd >= 0 && is_open(fd))
            kr_sys1(__NR_close, fd);
        CHECK(is_open(s[0]) && is_open(pipe[1]) && is_open(s[1]));
        if (!owned((u32)s[0])) { /* more of the file than there is: it was reset */
            while (arrived(s[0], 0), narrived)
                taken += narrived;
            over(s), connection(s, 04000);
        }
        CHECK_EQ(area->tail, 0);
        arrived(s[1], 0);
        sent += narrived;
        char x;
        CHECK(kr_sys3(__NR_read, pipe[0], &x, 1) == -EAGAIN);
        CHECK_STR(arrived(b[1], 0), "");
    }
    CHECK(sent <= granted && sent > 0);
    while (arrived(s[0], 0), narrived)
        taken += narrived;
    CHECK(taken <= given);
    kr_sys1(__NR_close, pipe[0]), kr_sys1(__NR_close, pipe[1]);
    over(s), over(b);
}

/* Another thread copies the number that a call of the holder's is about to give: it has guessed it. */
static void guesses(void) {
    struct kr_task other = {.proc = t->proc, .mm = t->mm};
    static const struct {
        u32 nr, command, owned;
    } calls[] = {{__NR_dup, 0, 0},
                 {__NR_dup2, 0, 0},
                 {__NR_dup3, 0, 0},
                 {__NR_fcntl, 0 /* F_DUPFD */, 0},
                 {__NR_close, 0, 1},
                 {__NR_read, 0, 1},
                 {__NR_fcntl, 3 /* F_GETFL */, 1}};
    int s[2];
    connection(s, 04000);
    over(s);
    t->proc->refs = 2;
    for (u32 i = 0; i < KR_COUNT(calls); i++)
        for (u32 when = 0; when < 3; when++) {
            other.nr = calls[i].nr;
            u64 a[6] = {(u32)s[0], calls[i].command};
            if (when == 0) /* before the holder's call begins */
                kr_sockets_named(&other, (u32)s[0], a);
            kr_sockets_call(t);
            if (when == 1)
                kr_sockets_named(&other, (u32)s[0], a);
            connection(s, 04000);
            CHECK_EQ(owned((u32)s[0]), when != 1 || calls[i].owned);
            if (when == 2) { /* a call that has begun before and ends now */
                kr_sockets_copied(&other, (u32)s[0]);
                CHECK(!owned((u32)s[0]));
            }
            over(s);
        }
    /* By its name in a message. */
    kr_sockets_call(t);
    kr_sockets_passed(&other, (u32)s[0]);
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    over(s);
    t->proc->refs = 1;
    t->mm->sockets->meddled = 0;
    kr_sockets_call(t);
}

/* The only thread makes another one. */
static void another_thread(void) {
    int s[2];
    kr_sockets_after_fork(t);
    t->proc->refs = 2; /* a third one */
    kr_sockets_thread(t);
    CHECK(!t->local.holder && !t->mm->sockets);
    connection(s, 04000);
    CHECK(!owned((u32)s[0]));
    over(s);
    t->proc->refs = 1;
    kr_sockets_thread(t);
    CHECK(t->local.holder && t->local.timer == 1);
    t->proc->refs = 2;
    kr_sockets_call(t);
    connection(s, 04000);
    CHECK(owned((u32)s[0]));
    over(s);
    t->proc->refs = 1;
    connection(s, 04000);
    t->mm->sockets->meddled = KR_SOCKETS_MEDDLED;
    kr_sockets_call(t);
    CHECK(!t->local.holder && !t->mm->sockets->holder && !t->local.timer && !owned((u32)s[0]));
    over(s);
}

void test_main(void) {
    u32 n = sizeof address;
    struct kr_vcpu *vcpu = kr_alloc(64);
    t = kr_test_self = kr_test_task();
    t->mm->vm.sys = kr_test_window(KR_SYS_SOCKETS + KR_SK_SIZE);
    t->mm->vm.entry = KR_ENTRY_RING3;
    t->local.possible = 1;
    t->resumed = 1; /* no timer runs */
    t->window.share = KR_WINDOW_ALL;
    t->vcpu = (struct kr_vcpu *)vcpu;
    address[2] = 0x007f, address[3] = 0x0100; /* 127.0.0.1 */
    listener = (int)kr_sys3(__NR_socket, 2, 1, 0);
    CHECK_EQ(kr_sys3(__NR_bind, listener, address, sizeof address), 0);
    CHECK_EQ(kr_sys2(__NR_listen, listener, 16), 0);
    CHECK_EQ(kr_sys3(__NR_getsockname, listener, address, &n), 0);
    which();
    CHECK_EQ(t->local.timer, 1); /* Linux 6.15 */
    names();
    meddles();
    guesses();
    reads();
    fresh();
    sends();
    slow();
    files();
    accepted();
    errors();
    anything();
    kr_sockets_release(t);
    another_thread();
}
