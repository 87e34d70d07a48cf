/* SPDX-License-Identifier: Apache-2.0
 * process/board.c: entering, finding, leaving, and a board on which every monitor of the container may write what
 * it likes. Sources: board.c ns.c kr_alloc.c
 */
#include "harness.h"
#include "abi/boot.h"
#include "process/board.h"
#include "process/ns.h"
#include "filter/jail.h"
#include "process/nnp.h"
#include "filter/seccomp.h"
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/time.h>

int kr_nnp_view(struct kr_task *t) { return (int)t->nnp; }
int kr_seccomp_mode(struct kr_task *t) { return t->seccomp ? 2 : 0; }
u32 kr_seccomp_count(struct kr_task *t) { return t->seccomp ? 3 : 0; }
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen);
long kr_copy_raw(void *dst, const void *src, size_t n);
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    if (kr_copy_raw(seen, p, 4) < 0)
        return -EFAULT;
    if (*seen == old)
        *p = new_value;
    return 0;
}

long kr_add64_raw(u64 *p, u64 n) {
    u64 was;
    if (kr_copy_raw(&was, p, 8) < 0)
        return -EFAULT;
    *p = was + n;
    return 0;
}

static struct kr_proc proc;
static struct kr_task task;

static int board(u64 magic, u64 cookie, long size) {
    u64 head[2] = {magic, cookie};
    int fd = (int)kr_sys2(__NR_memfd_create, "board", MFD_CLOEXEC);
    kr_sys2(__NR_ftruncate, fd, size);
    kr_sys4(__NR_pwrite64, fd, head, sizeof head, 0);
    return fd;
}

static u64 boot_ns(void) {
    u64 now[2];
    kr_sys2(__NR_clock_gettime, CLOCK_BOOTTIME, now);
    return now[0] * 1000000000ULL + now[1];
}

static void refuses_what_is_no_board(void) {
    static const struct {
        u64 magic, cookie;
        long size;
    } bad[] = {
        {0, 1, KR_BOARD_SIZE}, {KR_BOARD_MAGIC, 0, KR_BOARD_SIZE}, {KR_BOARD_MAGIC + 1, 7, KR_BOARD_SIZE}};
    struct kr_board_entry e;
    for (u32 i = 0; i < KR_COUNT(bad); i++) {
        kr_boot.fd_board = board(bad[i].magic, bad[i].cookie, bad[i].size);
        kr_board_open(&task);
        CHECK(kr_board_cookie() == 0);
        CHECK(kr_board_find((u32)kr_sys0(__NR_getpid), 0, &e) == -ENOENT);
        kr_sys1(__NR_close, kr_boot.fd_board);
    }
}

static void enters_finds_leaves(void) {
    u32 me = (u32)kr_sys0(__NR_getpid);
    struct kr_board_entry e;
    u64 before = boot_ns() / 10000000;
    kr_boot.fd_board = board(KR_BOARD_MAGIC, 0x1122334455667788, KR_BOARD_SIZE);
    kr_board_open(&task);
    CHECK(kr_board_cookie() == 0x1122334455667788);
    CHECK(proc.place != 0);
    CHECK(kr_board_find(me, before, &e) == 0);
    CHECK(e.pid == me);
    CHECK(kr_board_find(me, boot_ns() / 10000000 + 100, &e) == -ENOENT); /* a later process of that number */
    CHECK(kr_board_find(me + 1, before, &e) == -ENOENT);
    proc.action[7].handler = 1;
    proc.action[11].handler = 0x1000;
    task.nnp = 1;
    kr_board_update(&task);
    CHECK(kr_board_find(me, before, &e) == 0);
    CHECK(e.ignored == KR_SIGBIT(7) && e.caught == KR_SIGBIT(11) && e.flags & KR_BOARDF_NNP);
    kr_board_leave(&task);
    CHECK(kr_board_find(me, before, &e) == -ENOENT);
    kr_board_enter(&task);
    CHECK(kr_board_find(me, before, &e) == 0);
}

/* The number of a nested process is another one's: it neither takes nor frees the entry. */
static void leaves_others_alone(void) {
    u32 me = (u32)kr_sys0(__NR_getpid), entered = proc.place;
    struct kr_board_entry e;
    proc.flags |= KR_PROCF_NESTED;
    kr_board_enter(&task);
    CHECK(proc.place == 0 && !kr_same_numbers(&proc));
    kr_board_leave(&task);
    CHECK(kr_board_find(me, 0, &e) == 0);
    proc.flags &= ~KR_PROCF_NESTED;
    proc.place = entered;
}

/* A first monitor writes its user namespace down; the monitor of an exec compares; one of an execve has its flags. */
static void compares_the_user_namespace(void) {
    struct kr_board_header head;
    u32 other = 1;
    u64 at = offsetof(struct kr_board_header, userns);
    kr_sys4(__NR_pread64, kr_boot.fd_board, &head, sizeof head, 0);
    CHECK(head.userns && head.userns == kr_ns_user() && !(proc.flags & KR_PROCF_USERNS));
    kr_sys4(__NR_pwrite64, kr_boot.fd_board, &other, sizeof other, at);
    kr_boot.flags = 0;
    kr_board_open(&task);
    CHECK(!(proc.flags & KR_PROCF_USERNS));
    kr_boot.flags = KR_BOOTF_FIRST;
    kr_board_open(&task);
    CHECK(proc.flags & KR_PROCF_USERNS);
    kr_sys4(__NR_pread64, kr_boot.fd_board, &head, sizeof head, 0);
    CHECK(head.userns == 1);
    proc.flags &= ~KR_PROCF_USERNS;
    kr_ns_born(&proc); /* in the namespaces of its maker */
    CHECK(!(proc.flags & (KR_PROCF_USERNS | KR_PROCF_NESTED)));
    proc.pidns++, proc.userns++;
    kr_ns_born(&proc);
    CHECK(proc.flags & KR_PROCF_USERNS && proc.flags & KR_PROCF_NESTED);
    proc.flags = 0;
    kr_board_open(&task);
    proc.flags = 0;
}

static void read_words(u32 n, struct kr_board_words *out) {
    kr_sys4(__NR_pread64, kr_boot.fd_board, out, sizeof *out, KR_BOARD_WORDS_AT + n * sizeof *out);
}

static u32 said(void) {
    struct kr_board_header head;
    kr_sys4(__NR_pread64, kr_boot.fd_board, &head, sizeof head, 0);
    return head.said;
}

static void keeps_the_last_words(void) {
    struct kr_board_words words;
    char text[300];
    CHECK(said() == 0);
    kr_board_say("why");
    read_words(0, &words);
    CHECK(said() == 1 && words.pid == (u32)kr_sys0(__NR_getpid) && strcmp(words.text, "why") == 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    kr_board_say(text); /* too long: the beginning */
    read_words(1, &words);
    CHECK(words.text[0] == 'x' && words.text[sizeof words.text - 1] == 'x');
    read_words(2, &words);
    CHECK(words.pid == 0);
    for (u32 i = 2; i <= KR_BOARD_WORDS; i++)
        kr_board_say("again");
    read_words(0, &words);
    CHECK(said() == KR_BOARD_WORDS + 1 && strcmp(words.text, "again") == 0);
}

static u64 counted(u32 counter) {
    u64 n = 0;
    kr_sys4(__NR_pread64, kr_boot.fd_board, &n, sizeof n, KR_BOARD_COUNTS_AT + counter * 8);
    return n;
}
static u64 exits(void) { return counted(KR_BOARDC_EXITS); }

static void counts_what_is_new(void) {
    CHECK(exits() == 0);
    task.exits = 5;
    kr_board_count(&task);
    CHECK(exits() == 5 && task.exits == 0);
    kr_board_count(&task);
    CHECK(exits() == 5);
    task.exits = KR_BOARD_EVERY;
    kr_board_after_fork(&task); /* the parent counts them */
    kr_board_count(&task);
    CHECK(exits() == 5);
    proc.calls.done[1] = 3, proc.calls.declined[KR_LOCAL_WAYS - 1] = 4;
    kr_board_count(&task);
    kr_board_count(&task);
    CHECK(counted(KR_BOARDC_DONE + 1) == 3 && counted(KR_BOARDC_DECLINED + KR_LOCAL_WAYS - 1) == 4);
    CHECK(proc.calls.done[1] == 0 && counted(KR_BOARDC_DONE) == 0);
    for (int i = 0; i < 2; i++)
        kr_board_refused(101, KR_BOARDC_REFUSED);
    kr_board_refused(KR_BOARD_CALLS - 1, KR_BOARDC_UNKNOWN);
    kr_board_refused(KR_BOARD_CALLS, KR_BOARDC_UNKNOWN);
    kr_board_refused(~0ULL, KR_BOARDC_UNKNOWN);
    CHECK(counted(KR_BOARDC_REFUSED) == 2 && counted(KR_BOARDC_UNKNOWN) == 3);
    CHECK(counted(KR_BOARDC_CALLS + 101 / 64) == 1ULL << 101 % 64 &&
          counted(KR_BOARDC_CALLS + 7) == 1ULL << 63);
}

/* The vectors of the reference implementation (key 00..0f, input 00, 01, ...): lengths 0, 8 and 16. */
static void hashes_as_siphash(void) {
    const u64 words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    CHECK(kr_siphash(words[0], words[1], words, 0) == 0x726fdb47dd0e0e31);
    CHECK(kr_siphash(words[0], words[1], words, 1) == 0x93f5f5799a932462);
    CHECK(kr_siphash(words[0], words[1], words, 2) == 0x3f2acc7f57c29bdb);
    u64 tag = kr_board_tag(KR_TAG_QUESTION, 1, 2);
    CHECK(tag != kr_board_tag(KR_TAG_ANSWER, 1, 2) && tag != kr_board_tag(KR_TAG_QUESTION, 2, 2));
    CHECK(tag != kr_board_tag(KR_TAG_QUESTION, 1, 3) && tag == kr_board_tag(KR_TAG_QUESTION, 1, 2));
}

/* Whatever stands there: an answer is an entry of that pid, and nothing else happens. */
static void survives_garbage(void) {
    struct kr_board_entry e;
    for (u32 round = 0; round < 20; round++) {
        for (long at = round % 2 ? 32 : 16; at < (long)KR_BOARD_SIZE; at += 4096) {
            u64 junk[512];
            for (u32 i = 0; i < KR_COUNT(junk); i++)
                junk[i] = kr_test_random();
            kr_sys4(__NR_pwrite64, kr_boot.fd_board, junk, sizeof junk, at);
        }
        for (u32 i = 0; i < 2000; i++) {
            u32 pid = (u32)kr_test_random();
            if (kr_board_find(pid, kr_test_random() >> 40, &e) == 0)
                CHECK(e.pid == pid);
        }
        kr_board_say("why");
        kr_board_enter(&task); /* no place, or one that it took from the dead */
        kr_board_update(&task);
        kr_board_leave(&task);
        CHECK(proc.place == 0);
    }
}

static void survives_a_cut(void) {
    struct kr_board_entry e;
    kr_sys2(__NR_ftruncate, kr_boot.fd_board, 4096);
    for (u32 pid = 1; pid < 40000; pid += 37)
        CHECK(kr_board_find(pid, 0, &e) == -ENOENT || e.pid == pid);
    kr_board_say("why");
    task.exits = 1;
    kr_board_count(&task);
    kr_board_enter(&task);
    kr_board_update(&task);
    kr_board_leave(&task);
}

void test_main(void) {
    task.proc = &proc;
    kr_boot.flags = KR_BOOTF_FIRST;
    kr_boot.fd_proc = (int)kr_sys4(__NR_openat, -100, "/proc", O_RDONLY | O_DIRECTORY, 0);
    refuses_what_is_no_board();
    enters_finds_leaves();
    leaves_others_alone();
    compares_the_user_namespace();
    hashes_as_siphash();
    keeps_the_last_words();
    counts_what_is_new();
    survives_garbage();
    survives_a_cut();
}
