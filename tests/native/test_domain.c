/* SPDX-License-Identifier: Apache-2.0
 * process/domain.c: which domain may look into which process, and whether a question is of the process that listens.
 * Sources: domain.c board.c ns.c kr_alloc.c
 */
#include "harness.h"
#include "machine/mm.h"
#include "process/board.h"
#include "process/domain.h"
#include "filter/jail.h"
#include "filter/seccomp.h"
#include "process/nnp.h"

int kr_nnp_view(struct kr_task *t) { return (int)t->nnp; }
int kr_seccomp_mode(struct kr_task *t) { return t->seccomp ? 2 : 0; }
u32 kr_seccomp_count(struct kr_task *t) { return t->seccomp ? 3 : 0; }
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen);
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen) {
    *seen = __sync_val_compare_and_swap(p, old, new_value);
    return 0;
}
long kr_add64_raw(u64 *p, u64 n);
long kr_add64_raw(u64 *p, u64 n) { return __sync_fetch_and_add(p, n), 0; }
u64 kr_now(void) { return 1; }
const void *kr_boot_next(const struct kr_boot *b, u16 tag, size_t *pos, u32 *len) {
    (void)tag;
    (void)pos;
    *len = (u32)b->block_size;
    return b->block;
}

static struct kr_mm mm;
static struct kr_proc proc = {.mm = &mm}, relative = {.mm = &mm};
static struct kr_task first = {.proc = &proc, .mm = &mm}, second = {.proc = &proc, .mm = &mm},
                      other = {.proc = &relative, .mm = &mm};

static void names_grow(void) {
    CHECK(kr_domain_of(&first) == 0 && kr_domain_has(&first.domains, 0) && !kr_domain_has(&first.domains, 7));
    kr_domain_enter(&first);
    u64 outer = kr_domain_of(&first);
    kr_domain_enter(&first);
    u64 inner = kr_domain_of(&first);
    CHECK(outer && inner && outer != inner);
    CHECK(kr_domain_has(&first.domains, outer) && kr_domain_has(&first.domains, inner));
    CHECK(!kr_domain_has(&first.domains, outer ^ inner));
    second.domains = first.domains;
    second.domains.n = 1;
    CHECK(!kr_domain_has(&second.domains, inner) && kr_domain_has(&second.domains, outer));
}

static void the_first_thread_decides(void) {
    u64 outer = first.domains.id[0], inner = first.domains.id[1];
    first.tid = (u32)kr_sys0(__NR_getpid);
    second.tid = first.tid + 1;
    mm.tasks = &other;
    other.next = &second;
    second.next = &first;
    CHECK(kr_domain_admits(&second, 0) && kr_domain_admits(&second, outer) &&
          kr_domain_admits(&second, inner));
    mm.tasks = &second; /* the first thread has ended: each thread must be in the domain */
    second.next = NULL;
    CHECK(kr_domain_admits(&second, outer) && !kr_domain_admits(&second, inner));
    CHECK(!kr_domain_admits(&second, 12345));
}

static void a_block(void) {
    u64 ids[17] = {3, 4};
    struct kr_task t = {.domains = {0}};
    kr_boot.block = (const u8 *)ids;
    const size_t bad[] = {7, sizeof ids};
    for (u32 i = 0; i < KR_COUNT(bad); i++) {
        kr_boot.block_size = bad[i];
        CHECK_EQ(kr_domain_load(&t), -EINVAL);
    }
    kr_boot.block_size = 16;
    CHECK_EQ(kr_domain_load(&t), 0);
    CHECK(t.domains.n == 2 && kr_domain_of(&t) == 4 && kr_domain_has(&t.domains, 3));
}

static void who_listens(void) {
    u64 who = kr_domain_who(), tick = 10000000ULL;
    u32 pid = (u32)kr_sys0(__NR_getpid);
    u64 at = who << 22 >> 22; /* ticks */
    CHECK(kr_domain_is(who, pid, 0) && kr_domain_is(who, pid, at * tick));
    CHECK(!kr_domain_is(who, pid + 1, 0));
    CHECK(!kr_domain_is(who, pid, (at + 1) * tick)); /* came after the question */
    /* A clock that is more than 2^31 ticks (248 days) ahead, and more than 2^32. */
    u64 long_ago = who + (1ULL << 31) + 1, longer = who + (1ULL << 32);
    CHECK(kr_domain_is(long_ago, pid, at * tick) && kr_domain_is(longer, pid, (at + 1) * tick));
    CHECK(!kr_domain_is(who, pid, (at + (1ULL << 31) + 1) * tick));
    CHECK(!kr_domain_is(who, pid, (at + (1ULL << 32) - 1) * tick));
    CHECK(kr_domain_tag(1, 2, who) != kr_domain_tag(1, 3, who) &&
          kr_domain_tag(1, 2, 3) != kr_domain_tag(1, 2, 4));
}

void test_main(void) {
    names_grow();
    the_first_thread_decides();
    a_block();
    who_listens();
}
