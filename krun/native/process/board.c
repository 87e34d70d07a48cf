/* SPDX-License-Identifier: Apache-2.0
 *
 * The board: see board.h. State: the address of the mapping and the cookie, set once; proc->place, the index
 * of a process's own entry plus 1. No locks: an entry is taken by compare and exchange.
 */
#include "board.h"
#include "nnp.h"
#include "ns.h"
#include "process.h"
#include "../abi/boot.h"
#include "above.h"
#include "../machine/usercopy.h"
#include <linux/mman.h>
#include <linux/time.h>

#define PROBES 4u
#define TICK 10000000ULL /* ns; USER_HZ is 100 on x86 */

u64 kr_board_base;
static u64 cookie;

static u64 entry_at(u32 i) {
    return kr_board_base + 32 + (u64)(i % KR_BOARD_ENTRIES) * sizeof(struct kr_board_entry);
}

u64 kr_board_cookie(void) { return cookie; }

static u64 rotate(u64 x, int n) { return x << n | x >> (64 - n); }

static void rounds(u64 v[4], int n) {
    while (n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

u64 kr_siphash(u64 k0, u64 k1, const u64 *words, u32 n) {
    u64 v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                k1 ^ 0x7465646279746573};
    for (u32 i = 0; i <= n; i++) {
        u64 word = i < n ? words[i] : (u64)(n * 8) << 56;
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

u64 kr_board_tag(enum kr_tag kind, u64 request, u64 pids) {
    const u64 words[] = {kind, request, pids};
    return kr_siphash(cookie, ~cookie, words, KR_COUNT(words));
}

/* Sets the bits of an entry's flags but ASKED, of which it sets what is asked for: others set that one at any time. */
static void put_flags(u64 at, u32 flags, u32 keep) {
    u32 was, seen;
    at += offsetof(struct kr_board_entry, flags);
    if (kr_copy_raw(&was, (void *)at, 4) < 0)
        return;
    while (kr_cas32_raw((u32 *)at, was, flags | (was & keep), &seen) == 0 && seen != was)
        was = seen;
}

static void put(u64 at, const void *data, size_t n) { kr_copy_raw((void *)at, data, n); }

/* Whether the process of an entry has ended. */
static int is_dead(u32 pid) { return kr_sys2(__NR_kill, pid, 0) == -ESRCH; }

void kr_board_enter(struct kr_task *t) {
    struct kr_proc *proc = t->proc;
    u32 pid = (u32)kr_sys0(__NR_getpid);
    u64 now[2];
    proc->place = 0;
    if (!kr_board_base || proc->flags & KR_PROCF_NESTED)
        return;
    for (u32 i = 0; i < PROBES && !proc->place; i++) {
        u64 at = entry_at(pid + i);
        u32 was, seen;
        if (kr_copy_raw(&was, (void *)at, 4) < 0)
            return;
        if (was == pid ||
            ((!was || is_dead(was)) && kr_cas32_raw((u32 *)at, was, pid, &seen) == 0 && seen == was))
            proc->place = (pid + i) % KR_BOARD_ENTRIES + 1;
        if (proc->place && was != pid)
            put_flags(at, 0, 0);
    }
    if (!proc->place)
        return;
    kr_sys2(__NR_clock_gettime, CLOCK_BOOTTIME, now);
    u64 since = now[0] * 1000000000ULL + now[1];
    put(entry_at(proc->place - 1) + offsetof(struct kr_board_entry, since), &since, 8);
    kr_board_update(t);
}

void kr_board_update(struct kr_task *t) {
    struct kr_proc *proc = t->proc;
    struct kr_board_entry e = {0};
    if (!kr_board_base || !proc->place)
        return;
    for (int sig = 1; sig <= KR_NSIG; sig++) {
        u64 h = __atomic_load_n(&proc->action[sig].handler, __ATOMIC_RELAXED);
        if (h == 1)
            e.ignored |= KR_SIGBIT(sig);
        else if (h)
            e.caught |= KR_SIGBIT(sig);
    }
    u32 left = __atomic_load_n(&proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS;
    e.flags = (kr_nnp_view(t) ? KR_BOARDF_NNP : 0) | (left ? KR_BOARDF_USERNS : 0) |
              (u32)(kr_seccomp_mode(t) & 3) << KR_BOARDF_SECCOMP_SHIFT |
              KR_MIN((u32)kr_seccomp_count(t), 0xffffu) << KR_BOARDF_FILTERS_SHIFT;
    u64 at = entry_at(proc->place - 1);
    put_flags(at, e.flags, KR_BOARDF_ASKED);
    put(at + offsetof(struct kr_board_entry, caught), &e.caught, 16);
}

void kr_board_leave(struct kr_task *t) {
    struct kr_proc *proc = t->proc;
    u32 none = 0;
    if (kr_board_base && proc->place)
        put(entry_at(proc->place - 1), &none, 4);
    proc->place = 0;
}

/* Maps the board where that has not been done. */
static void map(void) {
    struct kr_board_header head;
    if (kr_board_base || kr_boot.fd_board < 0)
        return;
    long p =
        kr_sys6(__NR_mmap, 0, KR_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)kr_boot.fd_board, 0);
    if (p < 0)
        return;
    if (kr_copy_raw(&head, (void *)p, sizeof head) < 0 || head.magic != KR_BOARD_MAGIC || !head.cookie) {
        kr_sys2(__NR_munmap, p, KR_BOARD_SIZE);
        return;
    }
    kr_board_base = (u64)p;
    cookie = head.cookie;
}

/* The number of the container's user namespace. Where nobody has written it, the caller is the container's first monitor and
 * writes its own. */
static u32 home(void) {
    u32 own = kr_ns_user(), seen = own;
    if (kr_board_base &&
        kr_cas32_raw((u32 *)(kr_board_base + offsetof(struct kr_board_header, userns)), 0, own, &seen) == 0 &&
        seen)
        return seen;
    return own;
}

void kr_board_open(struct kr_task *t) {
    map();
    /* Only krun's own exec needs it: a process that comes from a payload has its maker's flags. */
    kr_ns_start(t->proc, kr_boot.flags & KR_BOOTF_FIRST ? home() : 0);
    if (kr_board_base)
        kr_board_enter(t);
}

void kr_board_say(const char *text) {
    struct kr_board_words words = {.pid = (u32)kr_sys0(__NR_getpid)};
    size_t n = strlen(text);
    memcpy(words.text, text, KR_MIN(n, sizeof words.text));
    map(); /* a monitor may end before kr_board_open */
    u64 at = kr_board_base + offsetof(struct kr_board_header, said);
    u32 was, seen;
    if (!kr_board_base || kr_copy_raw(&was, (void *)at, sizeof was) < 0)
        return;
    while (kr_cas32_raw((u32 *)at, was, was + 1, &seen) == 0 && seen != was)
        was = seen;
    put(kr_board_base + KR_BOARD_WORDS_AT + (u64)(was % KR_BOARD_WORDS) * sizeof words, &words, sizeof words);
}

static void add(u32 counter, u64 n) {
    if (kr_board_base && n)
        kr_add64_raw((u64 *)(kr_board_base + KR_BOARD_COUNTS_AT) + counter, n);
}

void kr_board_refused(u64 nr, enum kr_board_counter counter) {
    u32 *word = (u32 *)(kr_board_base + KR_BOARD_COUNTS_AT + KR_BOARDC_CALLS * 8) + nr / 32;
    u32 bit = 1u << (nr % 32), was, seen;
    add(counter, 1);
    if (!kr_board_base || nr >= KR_BOARD_CALLS || kr_copy_raw(&was, word, 4) < 0)
        return;
    while (!(was & bit) && kr_cas32_raw(word, was, was | bit, &seen) == 0 && seen != was)
        was = seen;
}

/* Takes a count of the process: another thread may add to it, or take it. */
static u64 take(u64 *count) {
    return __atomic_load_n(count, __ATOMIC_RELAXED) ? __atomic_exchange_n(count, 0, __ATOMIC_RELAXED) : 0;
}

void kr_board_count(struct kr_task *t) {
    struct kr_local_counts *calls = &t->proc->calls;
    add(KR_BOARDC_EXITS, t->exits);
    t->exits = 0;
    add(KR_BOARDC_SITES, take(&calls->sites));
    add(KR_BOARDC_PATCHED, take(&calls->patched));
    for (u32 way = 0; way < KR_LOCAL_WAYS; way++) {
        add(KR_BOARDC_DONE + way, take(&calls->done[way]));
        add(KR_BOARDC_DECLINED + way, take(&calls->declined[way]));
    }
}

_Static_assert(KR_BOARDC_DONE + KR_LOCAL_WAYS <= KR_BOARDC_DECLINED &&
                   KR_BOARDC_DECLINED + KR_LOCAL_WAYS <= KR_BOARDC_CALLS &&
                   KR_BOARDC_CALLS + KR_BOARD_CALLS / 64 <= KR_BOARD_COUNTS,
               "a counter for each way, and a bit for each call");

void kr_board_after_fork(struct kr_task *t) { t->exits = 0; }

/* The address of the entry of pid, of which *out is a copy; 0: none. */
static u64 find(u32 pid, u64 start, struct kr_board_entry *out) {
    for (u32 i = 0; kr_board_base && i < PROBES; i++)
        if (kr_copy_raw(out, (void *)entry_at(pid + i), sizeof *out) == 0 && out->pid == pid &&
            out->since / TICK >= start)
            return entry_at(pid + i);
    return 0;
}

int kr_board_find(u32 pid, u64 start, struct kr_board_entry *out) {
    return find(pid, start, out) ? 0 : -ENOENT;
}

void kr_board_ask(u32 pid, u64 start) {
    struct kr_board_entry e;
    u64 at = find(pid, start, &e);
    if (at && !(e.flags & KR_BOARDF_ASKED))
        put_flags(at, KR_BOARDF_ASKED, ~0u);
}

int kr_board_asked(struct kr_task *t) {
    u32 flags = 0, place = t->proc->place;
    return place &&
           kr_sys4(__NR_pread64, kr_boot.fd_board, &flags, sizeof flags,
                   entry_at(place - 1) - kr_board_base + offsetof(struct kr_board_entry, flags)) ==
               sizeof flags &&
           flags & KR_BOARDF_ASKED;
}
