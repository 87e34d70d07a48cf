/* SPDX-License-Identifier: Apache-2.0
 * process/observe.c: what is recorded, a full ring, a reader that has died, and a part of the board in which every monitor may
 * write what it likes. Sources: observe.c board.c ns.c rows.c boot.c kr_alloc.c
 */
#include "harness.h"
#include "abi/boot.h"
#include "process/observe.h"
#include "process/ns.h"
#include "process/nnp.h"
#include "filter/jail.h"
#include "filter/seccomp.h"
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/mman.h>

int kr_nnp_view(struct kr_task *t) { return (int)t->nnp; }
int kr_seccomp_mode(struct kr_task *t) { return t->seccomp ? 2 : 0; }
u32 kr_seccomp_count(struct kr_task *t) { return t->seccomp ? 3 : 0; }
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    if (kr_copy_raw(seen, p, 4) < 0)
        return -EFAULT;
    if (*seen == old)
        *p = new_value;
    return 0;
}
long kr_add64_raw(u64 *p, u64 n) {
    *p += n;
    return 0;
}
long kr_load32_raw(const u32 *p) {
    u32 v;
    return kr_copy_raw(&v, p, 4) < 0 ? -EFAULT : (long)v;
}

u64 kr_now(void) { return 1; }

static struct kr_proc proc;
static struct kr_task task;
static struct kr_board_header *head;
static struct kr_observe_control *control;
static u8 *ring;

static void make_board(void) {
    u64 start[2] = {KR_BOARD_MAGIC, 7};
    kr_boot.fd_board = (int)kr_sys2(__NR_memfd_create, "board", MFD_CLOEXEC);
    kr_sys2(__NR_ftruncate, kr_boot.fd_board, KR_OBSERVE_AT + KR_OBSERVE_SIZE);
    kr_sys4(__NR_pwrite64, kr_boot.fd_board, start, sizeof start, 0);
    task.proc = &proc;
    kr_board_open(&task);
    u8 *p = (u8 *)kr_sys6(__NR_mmap, 0, KR_OBSERVE_AT + KR_OBSERVE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                          (u64)kr_boot.fd_board, 0);
    head = (void *)p;
    control = (void *)(p + KR_OBSERVE_AT);
    ring = p + KR_OBSERVE_AT + KR_PAGE;
}

static void attach(u32 word, u32 first) {
    memset(control, 0, KR_PAGE);
    memset(control->calls, 0xff, sizeof control->calls);
    control->head = control->tail = first;
    control->shown = 32;
    head->watch = word;
}

static const struct kr_observe_record *record(u32 number) {
    return (void *)(ring + number % KR_OBSERVE_RECORDS * KR_OBSERVE_RECORD);
}

/* One call: whether it has made a record. */
static int call(u64 nr, const u64 args[6], long ret) {
    u32 before = control->head;
    task.nr = nr;
    memcpy(task.args, args, sizeof task.args);
    u32 word = kr_observe_word();
    u64 began = word ? kr_observe_begin(&task, word) : 0;
    kr_observe_end(&task, word, ret, began);
    return control->head != before;
}

static const u64 none[6];

static u64 seed = 1;
static u32 any(void) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (u32)(seed >> 33);
}

static void records_what_is_asked_for(void) {
    CHECK(!call(__NR_getpid, none, 1));
    attach(2, 0xfffffffe); /* numbers wrap around */
    CHECK(call(__NR_getpid, none, 42));
    const struct kr_observe_record *r = record(0xfffffffe);
    CHECK(r->seq == 0xffffffff && r->nr == __NR_getpid && r->ret == 42 && r->size == sizeof *r && r->began);
    CHECK(r->pid == (u32)kr_sys0(__NR_getpid) && !r->flags);
    CHECK(call(__NR_getpid, none, 1) && record(0xffffffff)->seq == 0 && control->head == 0);
    control->calls[__NR_getpid / 64] &= ~(1ULL << __NR_getpid);
    CHECK(!call(__NR_getpid, none, 1));
    CHECK(call(~0ULL, none, -ENOSYS));                            /* an unknown number */
    CHECK(!call(__NR_fork, none, 0) && call(__NR_fork, none, 5)); /* the child's return; the parent's */
    CHECK(call(__NR_exit_group, none, 0) && record(control->head - 2)->flags == KR_OBSERVEF_GONE);
}

static void records_failures(void) {
    attach(4, 0);
    control->flags = KR_OBSERVEF_FAILED;
    control->errnos[0] = 1ULL << ENOENT;
    CHECK(!call(__NR_getpid, none, 1) && !call(__NR_getpid, none, -EPERM) && !call(__NR_getpid, none, -4000));
    CHECK(call(__NR_getpid, none, -ENOENT));
    CHECK(!call(__NR_exit_group, none, 0));
}

static void records_processes(void) {
    attach(6, 0);
    control->npids = 2;
    control->pids[1] = (u32)kr_sys0(__NR_getpid) + 1;
    CHECK(!call(__NR_getpid, none, 1));
    attach(8, 0);
    control->npids = 2;
    control->pids[1] = (u32)kr_sys0(__NR_getpid);
    CHECK(call(__NR_getpid, none, 1));
    control->npids = 1; /* it was decided for this word: children follow */
    CHECK(call(__NR_getpid, none, 1));
    attach(10, 0);
    control->npids = 1;
    CHECK(!call(__NR_getpid, none, 1));
}

static void a_full_ring_loses(void) {
    attach(12, 5);
    for (u32 i = 0; i < KR_OBSERVE_RECORDS; i++)
        CHECK(call(__NR_getpid, none, 1));
    CHECK(!call(__NR_getpid, none, 1) && control->lost == 1 && head->watch == 12);
    control->tail++;
    CHECK(call(__NR_getpid, none, 1) && record(5)->seq == 5 + KR_OBSERVE_RECORDS + 1);
    control->lost = KR_OBSERVE_PATIENCE - 1;
    CHECK(!call(__NR_getpid, none, 1) && head->watch == 12);
    CHECK(!call(__NR_getpid, none, 1) && head->watch == 0); /* nobody reads: it ends */
    CHECK(!call(__NR_getpid, none, 1));
}

static void a_late_end_is_nothing(void) {
    attach(14, 0);
    task.nr = __NR_getpid;
    u64 began = kr_observe_begin(&task, 14);
    CHECK(began);
    head->watch = 16;
    kr_observe_end(&task, 14, 0, began);
    CHECK(control->head == 0);
}

static void a_hostile_board(void) {
    u64 args[6] = {1, (u64)ring, 100, ~0ULL, ~0ULL, ~0ULL}; /* not memory of the payload's */
    for (u32 round = 0; round < 3000; round++) {
        for (u32 i = 0; i < sizeof *control; i++)
            ((u8 *)control)[i] = (u8)any();
        memset(control->calls, 0xff, sizeof control->calls);
        control->tail = control->head - (u32)any() % 3;
        head->watch = 18 + round * 2;
        call((u64)any() % 480, args, any() % 3 ? 1 : -ENOENT);
    }
    for (u32 i = 0; i < KR_OBSERVE_RECORDS; i++)
        CHECK(record(i)->size <= KR_OBSERVE_RECORD);
    attach(18, 0);
    CHECK(call(__NR_write, args, 100) && record(0)->size == sizeof(struct kr_observe_record));
    kr_sys2(__NR_ftruncate, kr_boot.fd_board, KR_OBSERVE_AT); /* the reader goes */
}

void test_main(void) {
    make_board();
    records_what_is_asked_for();
    records_failures();
    records_processes();
    a_full_ring_loses();
    a_late_end_is_nothing();
    a_hostile_board();
}
