/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of system calls for `krun trace`: see observe.h. State: the address at which control and ring are mapped.
 */
#include "observe.h"
#include "../abi/boot.h"
#include "../table/rows.h"
#include <asm/unistd.h>
#include <linux/mman.h>
#include <linux/uio.h>

#define SHOWN_MOST 256u /* bytes of a buffer */
#define PATH_MOST 160u  /* bytes of a path: a record has room for two */
#define STRUCT_MOST 64u /* bytes of a structure */

static u64 mapping; /* 0: not yet */

static u64 field(size_t at) { return mapping + at; }
#define FIELD(name) field(offsetof(struct kr_observe_control, name))

/* Maps control and ring, if that has not been done. The header counts the processes that cannot (RLIMIT_AS). */
static int map(void) {
    if (__atomic_load_n(&mapping, __ATOMIC_ACQUIRE))
        return 1;
    long p = kr_sys6(__NR_mmap, 0, KR_OBSERVE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)kr_boot.fd_board,
                     KR_OBSERVE_AT);
    u64 none = 0;
    if (p < 0) {
        u32 *blind = (u32 *)(kr_board_base + offsetof(struct kr_board_header, blind)), was, seen;
        if (kr_copy_raw(&was, blind, 4) == 0)
            kr_cas32_raw(blind, was, was + 1, &seen);
        return 0;
    }
    if (!__atomic_compare_exchange_n(&mapping, &none, (u64)p, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        kr_sys2(__NR_munmap, p, KR_OBSERVE_SIZE);
    return 1;
}

/* Whether this process is on the list of n; an empty list has them all. */
static u32 is_listed(const u32 *pids, u32 n) {
    u32 pid = (u32)kr_sys0(__NR_getpid), found = !n;
    for (u32 i = 0; i < n; i++)
        found |= pids[i] == pid;
    return found;
}

/* Whether the process of t is asked for; decided once for each word. */
static int is_watched(struct kr_task *t, u32 word) {
    struct kr_proc *p = t->proc;
    u32 list[1 + KR_OBSERVE_PIDS + 1];
    if (__atomic_load_n(&p->watched, __ATOMIC_ACQUIRE) == word)
        return (int)__atomic_load_n(&p->watches, __ATOMIC_RELAXED);
    u32 found = 0;
    if (map() && kr_copy_raw(list, (void *)FIELD(npids), sizeof list) == 0)
        found = is_listed(list + 2, KR_MIN(list[0], KR_OBSERVE_PIDS));
    __atomic_store_n(&p->watches, found, __ATOMIC_RELAXED);
    __atomic_store_n(&p->watched, word, __ATOMIC_RELEASE);
    return (int)found;
}

static int bit_is_set(u64 bits, u32 bit) {
    u64 word;
    return kr_copy_raw(&word, (void *)(bits + bit / 64 * 8), 8) == 0 && word >> (bit % 64) & 1;
}

/* Bits of the control's flags; KR_OBSERVEF_FAILED alone if it cannot be read. */
static u32 asked_flags(void) {
    u32 flags;
    return kr_copy_raw(&flags, (void *)FIELD(flags), 4) < 0 ? KR_OBSERVEF_FAILED : flags;
}

static int only_failures(void) { return (asked_flags() & KR_OBSERVEF_FAILED) != 0; }

/* ---- records ---- */

struct record {
    struct kr_observe_record head;
    u8 items[KR_OBSERVE_RECORD - sizeof(struct kr_observe_record)];
};
_Static_assert(sizeof(struct record) == KR_OBSERVE_RECORD && sizeof(struct kr_observe_record) == 96,
               "krun/kvm/watch.py has the places");
_Static_assert(sizeof(struct kr_observe_control) <= KR_PAGE, "one page");
_Static_assert(offsetof(struct kr_observe_control, noted) == 192 &&
                   offsetof(struct kr_observe_control, calls) == 272,
               "krun/kvm/watch.py has the places");

/* Appends an item of up to `most` bytes at addr. all: bytes that the argument has; ~0: up to a NUL. */
static void add(struct record *r, u32 arg, u64 addr, u64 all, u64 most) {
    u32 room = KR_OBSERVE_RECORD - r->head.size;
    if (room < 4 || !addr)
        return;
    u8 *item = (u8 *)r + r->head.size;
    u64 want = KR_MIN(KR_MIN(all, most), (u64)KR_MIN(room - 4, 255u));
    long got = -EFAULT;
    if (all == ~0ULL) {
        if (kr_span_ok(addr, 1))
            got = kr_copy_str_raw((char *)item + 4, (const char *)addr, KR_MIN(want, KR_WINDOW_END - addr));
        if (got >= 0) /* one more than is shown: there is more */
            all = (u64)got + ((u64)got == want);
    } else if (kr_copy_in(item + 4, addr, want) == 0) {
        got = (long)want;
    }
    if (got < 0)
        return;
    u16 total = (u16)KR_MIN(all, 65535u);
    item[0] = (u8)arg;
    item[1] = (u8)got;
    memcpy(item + 2, &total, 2);
    r->head.size += 4 + (u32)got;
}

/* The first buffer of an array of iovec: the array's first element, and its bytes. */
static void add_vector(struct record *r, u32 arg, u64 addr, u64 n, u64 ret, u32 shown) {
    struct iovec first;
    if (!n || kr_copy_in(&first, addr, sizeof first) < 0)
        return;
    add(r, arg, (u64)first.iov_base, KR_MIN((u64)first.iov_len, ret), shown);
}

static void add_argument(struct record *r, const struct kr_sys_row *row, u32 i, u32 shown) {
    const u64 *a = r->head.args;
    u32 x = row->arg[i];
    int li = KR_ARG_LEN(x);
    u64 len = li >= 0 ? a[li] * KR_ARG_BYTES(x) : KR_ARG_BYTES(x);
    s64 ret = r->head.ret;
    switch (KR_ARG_KIND(x)) {
    case KR_ARG_STR:
    case KR_ARG_PATH:
        add(r, i, a[i], ~0ULL, PATH_MOST);
        break;
    case KR_ARG_INV:
        add(r, i, a[i], len, KR_ARG_BYTES(x) == 1 ? shown : STRUCT_MOST);
        break;
    case KR_ARG_OUTV:
        if (ret > 0 && KR_ARG_BYTES(x) == 1)
            add(r, i, a[i], KR_MIN((u64)ret, len), shown);
        break;
    case KR_ARG_IN:
        if (len <= STRUCT_MOST)
            add(r, i, a[i], len, len);
        break;
    case KR_ARG_OUT:
    case KR_ARG_IO:
        if (ret >= 0 && len <= STRUCT_MOST)
            add(r, i, a[i], len, len);
        break;
    case KR_ARG_IOVEC:
        if (ret > 0 && li >= 0)
            add_vector(r, i, a[i], a[li], (u64)ret, shown);
        break;
    default:
        break;
    }
}

/* Counts a record for which there is no room. Nobody reads any more, if the reader does not take note of that. */
static void lose(void) {
    u32 was, noted, seen, word = kr_observe_word();
    if (kr_copy_raw(&was, (void *)FIELD(lost), 4) < 0 || kr_copy_raw(&noted, (void *)FIELD(noted), 4) < 0)
        return;
    while (kr_cas32_raw((u32 *)FIELD(lost), was, was + 1, &seen) == 0 && seen != was)
        was = seen;
    if (was - noted >= KR_OBSERVE_PATIENCE)
        kr_cas32_raw((u32 *)(kr_board_base + offsetof(struct kr_board_header, watch)), word, 0, &seen);
}

static void publish(struct record *r) {
    u32 head, tail, seen;
    if (kr_copy_raw(&head, (void *)FIELD(head), 4) < 0)
        return;
    for (;;) {
        if (kr_copy_raw(&tail, (void *)FIELD(tail), 4) < 0)
            return;
        if ((s32)(head - tail) >= (s32)KR_OBSERVE_RECORDS) {
            lose();
            return;
        }
        if (kr_cas32_raw((u32 *)FIELD(head), head, head + 1, &seen) < 0)
            return;
        if (seen == head)
            break;
        head = seen;
    }
    u64 at = field(KR_PAGE) + (u64)(head % KR_OBSERVE_RECORDS) * KR_OBSERVE_RECORD;
    r->head.seq = head + 1;
    if (kr_copy_raw((void *)(at + 4), &r->head.size, r->head.size - 4) == 0)
        kr_copy_raw((void *)at, &r->head.seq, 4);
}

static void record(struct kr_task *t, u32 flags, long ret, u64 began) {
    struct record r;
    u32 shown;
    if (kr_copy_raw(&shown, (void *)FIELD(shown), 4) < 0)
        return;
    r.head = (struct kr_observe_record){.size = sizeof r.head,
                                        .began = began,
                                        .took = kr_now() - began,
                                        .ret = ret,
                                        .pid = (u32)kr_sys0(__NR_getpid),
                                        .tid = (u32)kr_sys0(__NR_gettid),
                                        .nr = (u32)t->nr,
                                        .flags = flags};
    memcpy(r.head.args, t->args, sizeof r.head.args);
    const struct kr_sys_row *row = kr_sys_row(r.head.nr);
    for (u32 i = 0; row && i < row->nargs; i++)
        add_argument(&r, row, i, KR_MIN(shown, SHOWN_MOST));
    publish(&r);
}

/* ---- the signals ---- */

static void event(struct kr_task *t, int sig, u32 flags, const void *info) {
    struct record r;
    u32 word = kr_observe_word();
    if (!word || !is_watched(t, word) || !(asked_flags() & KR_OBSERVEF_SIGNALS))
        return;
    r.head = (struct kr_observe_record){.size = sizeof r.head,
                                        .began = kr_now(),
                                        .pid = (u32)kr_sys0(__NR_getpid),
                                        .tid = (u32)kr_sys0(__NR_gettid),
                                        .nr = (u32)sig,
                                        .flags = flags};
    if (info)
        memcpy(r.head.args, info, sizeof r.head.args);
    publish(&r);
}

void kr_observe_signal(struct kr_task *t, const siginfo_t *si) {
    if (kr_observe_word())
        event(t, si->si_signo, KR_OBSERVEF_SIGNAL, si);
}

void kr_observe_killed(struct kr_task *t, int sig) {
    if (kr_observe_word())
        event(t, sig, KR_OBSERVEF_KILLED, NULL);
}

/* ---- the calls ---- */

u64 kr_observe_begin(struct kr_task *t, u32 word) {
    u32 nr = (u32)t->nr;
    if (!is_watched(t, word))
        return 0;
    if (!bit_is_set(FIELD(calls), KR_MIN(nr, KR_OBSERVE_CALLS - 1))) {
        if ((nr == __NR_exit || nr == __NR_exit_group) && asked_flags() & KR_OBSERVEF_SIGNALS)
            record(t, KR_OBSERVEF_GONE | KR_OBSERVEF_ENDS, 0, kr_now());
        return 0;
    }
    u64 now = kr_now();
    if ((nr == __NR_exit || nr == __NR_exit_group || nr == __NR_execve || nr == __NR_execveat) &&
        !only_failures())
        record(t, KR_OBSERVEF_GONE, 0, now);
    return now;
}

static int makes_a_child(u32 nr) {
    return nr == __NR_clone || nr == __NR_clone3 || nr == __NR_fork || nr == __NR_vfork;
}

void kr_observe_end(struct kr_task *t, u32 word, long ret, u64 began) {
    if (!began || kr_observe_word() != word ||
        (!ret && makes_a_child((u32)t->nr))) /* 0: the child's return */
        return;
    if (only_failures() &&
        (ret >= 0 || -ret >= (long)KR_OBSERVE_ERRNOS || !bit_is_set(FIELD(errnos), (u32)-ret)))
        return;
    record(t, 0, ret, began);
}

void kr_exec_save_watch(const struct kr_exec_save *x) {
    u64 word = __atomic_load_n(&x->t->proc->watched, __ATOMIC_ACQUIRE);
    if (word && __atomic_load_n(&x->t->proc->watches, __ATOMIC_RELAXED))
        x->emit(x->ctx, KR_BOOT_WATCHED, &word, 8);
}

void kr_observe_load(struct kr_task *t) {
    size_t pos = 0;
    u32 len;
    u64 word;
    const void *data = kr_boot_next(&kr_boot, KR_BOOT_WATCHED, &pos, &len);
    if (!data || len != sizeof word)
        return;
    memcpy(&word, data, sizeof word);
    if (word == kr_observe_word()) { /* else it is decided anew */
        t->proc->watches = (u32)map();
        t->proc->watched = (u32)word;
    }
}
