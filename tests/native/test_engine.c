/* SPDX-License-Identifier: Apache-2.0
 * guest/engine.S: the code for completed calls is plain ring-3 code, so it runs here, one instruction at a time (TF). At
 * each instruction the call either has not begun, and kr_engine_undo gives the registers of the call, or it is complete,
 * and kr_engine_end gives those behind SYSCALL. Left alone, the code ends with the right registers or at the exit, and what
 * a call writes is there if and only if the call is complete.
 * Sources: engine.S callpage.c
 */
#include "stepping.h"
#include "guest/socketpage.h"
#include "machine/callpage.h"
#include "table/rows.h"
#include <asm/prctl.h>
#include <linux/mman.h>

#define PAGES 8
#define ROUNDS 3000

int kr_pt_sys(struct kr_vm *vm, u64 gva, u64 gpa, u64 flags) {
    return (void)vm, (void)gva, (void)gpa, (void)flags, 0;
}

static u8 *stub;
static struct kr_fact_page *fact;
static struct kr_call_page *call;

/* The registers of a call, and what came of it. */
static struct kvm_regs expected;
static u64 expected_result;
static u64 begin; /* where the code is entered */

static int completes;         /* the call is to be completed */
static int faults;            /* a pointer of the call is bad */
static u32 way;               /* enum kr_way of the call */
static void (*prepare)(void); /* before each run of the call: what the call changes */
static void (*changed)(int);  /* whether the call has changed it, or nothing */

/* At one instruction of the code: what would the monitor make of it? */
static void look(const struct kvm_regs *r) {
    struct kvm_regs fixed = *r;
    u64 save[16];
    memcpy(save, call->save, sizeof save);
    switch (kr_engine_place((u64)stub, r->rip)) {
    case KR_PLACE_POST: /* the monitor stores what is missing */
        CHECK_EQ(call->post_at, start.rdx);
        memcpy((void *)call->post_at, &call->post, sizeof call->post);
        __attribute__((fallthrough));
    case KR_PLACE_AFTER:
        kr_engine_end(save, call->result, &fixed);
        same("after", &fixed, &expected, 1);
        changed(1);
        break;
    case KR_PLACE_ENTRY:
    case KR_PLACE_BEFORE: {
        struct kvm_regs want = start;
        want.rip = (u64)stub;
        kr_engine_undo(save, (u64)stub, &fixed);
        same("before", &fixed, &want, 0);
        changed(0);
        break;
    }
    case KR_PLACE_OUT: {
        struct kvm_regs want = start;
        want.rip = (u64)stub;
        same("exit", &fixed, &want, 0);
        break;
    }
    default:
        printf("step %u: no place for offset 0x%llx\n", steps, (unsigned long long)(r->rip - (u64)stub));
        kr_test_failures++;
    }
}

static void on_signal(int sig, siginfo_t *info, void *ctx) {
    struct ucontext *u = ctx;
    struct sigcontext_64 *s = (struct sigcontext_64 *)&u->uc_mcontext;
    (void)info;
    if (begins(sig, u, begin, (start.r11 & ~(u64)KR_SFMASK) | KR_FLAGS_FIXED))
        return;
    to_kvm(s, &now);
    if (s->ip == start.rcx) {
        end = RETURNED;
    } else if (sig == SIGSEGV && s->ip == (u64)stub) {
        end = EXITED;
    } else if (sig == SIGTRAP && s->ip - (u64)stub < KR_PAGE && steps < 2000) {
        look(&now);
        steps++;
        return;
    } else if (sig == SIGSEGV && s->ip - (u64)stub < KR_PAGE) {
        look(&now);
        end = FAULTED;
    } else {
        end = LOST;
    }
    go_home(u);
}

/* Makes the call of `start`, without and with a trap at each instruction. */
static void one(void) {
    for (mode = RUN; mode <= STEP; mode++) {
        end = NOTHING;
        steps = 0;
        begin = (u64)stub + KR_EO_ENTRY;
        prepare();
        u64 before = call->done[way];
        expected = start;
        expected.rax = expected_result;
        expected.rip = start.rcx;
        expected.rflags = start.r11;
        go();
        if (faults) {
            CHECK_EQ(end, FAULTED); /* on_signal() has looked */
        } else if (completes) {
            CHECK_EQ(end, RETURNED);
            same("returned", &now, &expected, 1);
            CHECK_EQ(call->done[way], before + 1);
            changed(1);
        } else {
            struct kvm_regs want = start;
            want.rip = (u64)stub;
            CHECK_EQ(end, EXITED);
            same("exited", &now, &want, 0);
            CHECK_EQ(call->done[way], before);
            changed(0);
        }
        for (u32 i = 0; i < STACK_WORDS; i++)
            if (stack[i] != 0x5a5a5a5a5a5a5a5aULL) {
                CHECK_EQ(stack[i], 0x5a5a5a5a5a5a5a5aULL);
                stack[i] = 0x5a5a5a5a5a5a5a5aULL;
            }
    }
}

static void random_registers(void) {
    u64 *x = (u64 *)&start;
    for (u32 i = 0; i < 16; i++)
        x[i] = kr_test_random() << 11 ^ kr_test_random();
    start.rsp = (u64)(stack + STACK_WORDS) - 64;
    start.rcx = (u64)stub + 7 * KR_PAGE; /* not executable: the return faults there */
    start.r11 = (kr_test_random() & ARITHMETIC) | KR_FLAGS_FIXED;
    start.rip = 0;
    start.rflags = 0;
}

static void no_preparation(void) {}
static void no_change(int complete) { (void)complete; }

/* The return of a way that has changed something: all registers but rbx, rbp, rsp, r12 to r15 come from the call page. */
static void after(void) {
    extern const u8 kr_engine[], kr_engine_after[];
    for (u32 round = 0; round < ROUNDS / 10; round++) {
        random_registers();
        expected = start;
        call->save[KR_SAVE_R11] = start.r11;
        call->save[KR_SAVE_RCX] = start.rcx;
        call->save[KR_SAVE_RDX] = expected.rdx = kr_test_random();
        call->save[KR_SAVE_RSI] = expected.rsi = kr_test_random();
        call->save[KR_SAVE_RDI] = expected.rdi = kr_test_random();
        call->save[KR_SAVE_R8] = expected.r8 = kr_test_random();
        call->save[KR_SAVE_R9] = expected.r9 = kr_test_random();
        call->save[KR_SAVE_R10] = expected.r10 = kr_test_random();
        call->result = expected.rax = kr_test_random();
        expected.rip = start.rcx;
        expected.rflags = start.r11;
        begin = (u64)stub + (u64)(kr_engine_after - kr_engine);
        for (mode = RUN; mode <= STEP; mode++) {
            end = NOTHING;
            steps = 0;
            go();
            CHECK_EQ(end, RETURNED);
            same("returned", &now, &expected, 1);
        }
    }
}

static void facts(void) {
    way = KR_WAY_FACT;
    prepare = no_preparation;
    changed = no_change;
    static const u16 nrs[] = {__NR_getpid, __NR_gettid, __NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid};
    memset(fact, 0, sizeof *fact);
    fact->on = 1;
    for (u32 i = 0; i < KR_COUNT(nrs); i++) {
        fact->way[nrs[i]] = (u8)(KR_WAY_FACT | i << KR_WAY_SHIFT);
        fact->fact[i] = 0x123456780000ULL + i;
    }
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 i = (u32)kr_test_below(KR_COUNT(nrs));
        random_registers();
        start.rax = nrs[i] | (kr_test_below(2) ? kr_test_random() << 32 : 0); /* the kernel reads eax only */
        expected_result = fact->fact[i];
        completes = 1;
        switch (kr_test_below(6)) {
        case 0: /* another call */
            start.rax = kr_test_below(2) ? kr_test_random() | 0x80000000 : 1000 + kr_test_below(100000);
            completes = 0;
            break;
        case 1:
            start.rax = __NR_getppid;
            completes = 0;
            break;
        case 2: /* flags that only the monitor restores */
            start.r11 |= (u64[]){0x100, 0x400, 0x4000, 0x40000}[kr_test_below(4)];
            completes = 0;
            break;
        case 3:
            fact->on = 0;
            completes = 0;
            break;
        }
        one();
        fact->on = 1;
    }
}

/* ---- rt_sigaction ---- */

static u8 *payload;               /* two pages, and none behind them */
static u64 records;               /* call->set before the call */
static int sets;                  /* the form of the call: a set, or a read */
static struct kr_action_k wanted; /* what a set records, or what a read gives */

static void prepare_action(void) {
    call->set = records;
    u32 sig = (u32)start.rdi;
    if (sets && sig >= 1 && sig <= 64 && !(records >> (sig - 1) & 1))
        memset(&call->to[sig], 0x33, sizeof wanted);
}

static void action_changed(int complete) {
    u64 bit = 1ULL << (((u32)start.rdi - 1) & 63);
    if (!sets) { /* a read may be made twice: what it writes is right, or not there */
        CHECK_EQ(call->set, records);
        if (complete)
            CHECK(!memcmp((void *)start.rdx, &wanted, sizeof wanted));
    } else if (complete) {
        CHECK_EQ(call->set, records | bit);
        CHECK(!memcmp(&call->to[(u32)start.rdi], &wanted, sizeof wanted));
    } else {
        CHECK_EQ(call->set, records);
    }
}

static struct kr_action_k random_action(void) {
    static const u64 flags[] = {0, 1, 2, 0x10000000, 0x04000000, 0x40000000, 0x400, ~0ULL};
    return (struct kr_action_k){.handler = kr_test_below(4) ? 0 : kr_test_below(3),
                                .flags = flags[kr_test_below(2) ? 4 : kr_test_below(KR_COUNT(flags))],
                                .restorer = kr_test_random(),
                                .mask = kr_test_random() << 11 ^ kr_test_random()};
}

static void random_actions(void) {
    for (u32 sig = 1; sig <= 64; sig++) {
        fact->action[sig] = random_action();
        fact->action[sig].flags &= KR_LOCAL_ACTION_FLAGS;
        call->to[sig] = (struct kr_action_k){.flags = sig, .restorer = kr_test_random()};
    }
    records = kr_test_below(2) ? 0 : kr_test_random() << 11 & kr_test_random();
}

/* One random call, and what is to come of it, by the rules of guest/engine_action.inc in other words. */
static void one_action(void) {
    static const u8 ignored[] = {9, 17, 18, 19, 23, 28}; /* and those that cannot be set */
    static const u64 bad_number[] = {0, 65, 200, 0xffffffff, 1ULL << 40};
    struct kr_action_k act = random_action(), now;
    random_registers();
    u32 sig = 1 + (u32)kr_test_below(64), form = (u32)kr_test_below(8);
    start.rax = __NR_rt_sigaction;
    start.rdi = sig | (kr_test_below(2) ? kr_test_random() << 32 : 0); /* an int */
    start.r10 = 8;
    sets = form < 4;
    u8 *at = payload + kr_test_below(2 * KR_PAGE - sizeof act + 1);
    memcpy(at, &act, sizeof act);
    start.rsi = sets ? (u64)at : 0;
    start.rdx = sets ? 0 : (u64)at;
    int recorded = (int)(records >> (sig - 1) & 1), noted = 1;
    now = recorded ? call->to[sig] : fact->action[sig];
    for (u32 i = 0; i < KR_COUNT(ignored); i++)
        noted &= sig != ignored[i];
    completes = !sets || (!recorded && noted && !act.handler && !now.handler &&
                          (act.flags & 0x10000003) == (now.flags & 0x10000003));
    wanted = now;
    if (sets)
        wanted = (struct kr_action_k){.flags = act.flags & KR_LOCAL_ACTION_FLAGS,
                                      .restorer = act.restorer,
                                      .mask = act.mask & ~(1ULL << 8 | 1ULL << 18)};
    faults = 0;
    __u64 *pointer = sets ? &start.rsi : &start.rdx;
    switch (kr_test_below(10)) {
    case 0: /* both pointers, or none */
        start.rsi = start.rdx = kr_test_below(2) ? (u64)at : 0;
        completes = 0;
        break;
    case 1: /* above the window: never a fault, because the code does not touch it */
        *pointer = (u64[]){KR_WINDOW_END - 31, KR_WINDOW_END, (u64)stub | 1ULL << 62, ~0ULL - 8,
                           1ULL << 63}[kr_test_below(5)];
        completes = 0;
        break;
    case 2: /* the end of the payload's memory lies in the structure */
        if (sets && (!noted || recorded))
            break;
        *pointer = (u64)payload + 2 * KR_PAGE - kr_test_below(4) * 8;
        faults = !sets || *pointer == (u64)payload + 2 * KR_PAGE; /* else a handler may be refused first */
        completes = 0;
        if (!faults) {
            memset(payload + 2 * KR_PAGE - 24, 0, 24);
            faults = !now.handler;
        }
        break;
    case 3:
        start.r10 = (u64[]){0, 7, 9, 16, 1ULL << 32 | 8, ~0ULL}[kr_test_below(6)];
        completes = 0;
        break;
    case 4:
        start.rdi = bad_number[kr_test_below(KR_COUNT(bad_number))];
        completes = 0;
        break;
    }
    one();
}

static void actions(void) {
    payload = kr_test_window(2 * KR_PAGE);
    way = KR_WAY_ACTION;
    prepare = prepare_action;
    changed = action_changed;
    memset(fact, 0, sizeof *fact);
    fact->on = 1;
    fact->way[__NR_rt_sigaction] = KR_WAY_ACTION;
    expected_result = 0;
    u32 done = 0;
    for (u32 round = 0; round < ROUNDS; round++) {
        if (round % 20 == 0)
            random_actions();
        one_action();
        done += completes;
    }
    CHECK(done > ROUNDS / 4);
    faults = 0;
}

/* ---- sockets: read and recvfrom, write and sendto ---- */

static struct kr_sock_area *sockets;
static struct kr_sock_entry entry; /* of the call's descriptor */
static u64 used, spent, tail;      /* before the call */
static u8 *buffer;                 /* the call's */
static u8 before_call[KR_PAGE];    /* what it has before */
static u8 *array;                  /* of a writev */
#define ROUNDS_SOCKETS 700
#define LONGEST 32 /* a trap after each byte */

static u32 socket_fd(void) { return (u32)start.rdi; }

static void prepare_socket(void) {
    u32 fd = socket_fd();
    if (fd < KR_SOCK_FDS) {
        sockets->entry[fd] = entry;
        sockets->used[fd] = used;
        sockets->spent[fd] = spent;
    }
    sockets->tail = tail;
    if (!faults)
        memcpy(buffer, before_call, LONGEST);
}

static void socket_call(u32 plain, u32 other) {
    static const u32 fds[] = {KR_SOCK_FDS, KR_SOCK_FDS + 1, 0x7fffffff, 0x80000000, ~0u};
    u32 fd = kr_test_below(8) ? (u32)kr_test_below(KR_SOCK_FDS) : fds[kr_test_below(KR_COUNT(fds))];
    random_registers();
    for (u32 i = 0; i < LONGEST; i++)
        before_call[i] = (u8)kr_test_random();
    buffer = payload + kr_test_below(2 * KR_PAGE - LONGEST);
    int second = (int)kr_test_below(2);
    start.rax = second ? other : plain;
    start.rdi = fd | (kr_test_below(2) ? kr_test_random() << 32 : 0); /* an int */
    start.rsi = (u64)buffer;
    start.rdx = 1 + kr_test_below(LONGEST);
    entry = (struct kr_sock_entry){.gen = (u32)kr_test_random()};
    used = spent = tail = 0;
    faults = 0;
    completes = fd < KR_SOCK_FDS;
    if (second) { /* flags and an address count for these calls only */
        start.r8 = 0;
        start.r10 = kr_test_random() << 32;
        if (!kr_test_below(8)) {
            start.r8 = kr_test_random() | 1;
            completes = 0;
        }
        if (!kr_test_below(8)) {
            start.r10 |= 1u << kr_test_below(32);
            completes &= plain == __NR_write && !((u32)start.r10 & ~0x4040u);
        }
    }
}

/* The buffer is changed to one that no call may have, or that faults. size: the bytes that the call takes or gives. touches: it
 * reads or writes them before it knows that it cannot be completed. */
static void bad_buffer(u64 size, int touches) {
    switch (kr_test_below(12)) {
    case 0:
        start.rsi = (u64[]){KR_WINDOW_END - start.rdx + 1, KR_WINDOW_END, (u64)sockets, ~0ULL - 8,
                            1ULL << 63}[kr_test_below(5)];
        completes = 0;
        break;
    case 1:
        start.rsi = (u64)payload + 2 * KR_PAGE - kr_test_below(size);
        faults = touches;
        completes = 0;
        break;
    case 2:
        start.rdx = (u64[]){0, 1ULL << 63, ~0ULL, KR_WINDOW_END}[kr_test_below(4)];
        completes = 0;
        break;
    }
}

static void read_changed(int complete) {
    u32 fd = socket_fd();
    if (fd < KR_SOCK_FDS)
        CHECK_EQ(sockets->used[fd], used + (complete ? expected_result : 0));
    CHECK_EQ(sockets->tail, 0);
    if (complete) { /* what it writes may be there without the change, but never beyond its end */
        CHECK(!memcmp(buffer, sockets->data + entry.off + used, expected_result));
        CHECK(!memcmp(buffer + expected_result, before_call + expected_result, LONGEST - expected_result));
    }
}

static void reads(void) {
    way = KR_WAY_READ;
    changed = read_changed;
    fact->way[__NR_read] = KR_WAY_READ;
    fact->way[__NR_recvfrom] = KR_WAY_READ | 1 << KR_WAY_SHIFT;
    for (u32 i = 0; i < KR_SOCK_DATA_SIZE; i++)
        sockets->data[i] = (u8)kr_test_random();
    u32 done = 0;
    for (u32 round = 0; round < ROUNDS_SOCKETS; round++) {
        socket_call(__NR_read, __NR_recvfrom);
        entry.len = kr_test_below(8) ? (u32)kr_test_below(2 * LONGEST) : 0;
        entry.off = (u32)kr_test_below(KR_SOCK_DATA_SIZE - 2 * LONGEST);
        entry.whole = (u32)kr_test_below(2);
        used = kr_test_below(8) ? kr_test_below(LONGEST) : kr_test_random() << 11;
        u64 left = used < entry.len ? entry.len - used : 0;
        if (left > LONGEST)
            entry.len -= LONGEST, left -= LONGEST;
        u64 given = KR_MIN(left, start.rdx);
        completes &= given && (start.rdx <= left || entry.whole);
        expected_result = given;
        bad_buffer(KR_MAX(given, 1), completes);
        one();
        done += completes;
    }
    CHECK(done > ROUNDS_SOCKETS / 8);
    faults = 0;
}

static void queue_changed(int complete) {
    u32 fd = socket_fd();
    struct kr_sock_record r;
    u64 len = expected_result, size = sizeof r + ((len + 7) & ~7ULL);
    CHECK_EQ(sockets->tail, complete ? tail + size : tail);
    if (fd < KR_SOCK_FDS)
        CHECK_EQ(sockets->used[fd], 0);
    if (!complete)
        return;
    CHECK_EQ(sockets->spent[fd], spent + len + KR_SOCK_SKB);
    memcpy(&r, (u8 *)sockets->queue + tail, sizeof r);
    CHECK(r.fd == fd && r.len == len && r.gen == entry.gen && r.kind == KR_SR_DATA);
    CHECK(!memcmp((u8 *)sockets->queue + tail + sizeof r, before_call, len));
}

/* The call becomes a writev: its data in parts, and the array that says where they are. */
static u64 parts(u64 bytes) {
    struct {
        u64 at, len;
    } v[KR_SOCK_VECTORS + 1] = {{0}};
    u32 n = 1 + (u32)kr_test_below(5);
    u64 at = 0;
    for (u32 i = 0; i < n; i++) {
        v[i].at = start.rsi + at;
        v[i].len = i == n - 1 ? bytes - at : kr_test_below(bytes - at + 1);
        at += v[i].len;
    }
    if (!kr_test_below(10)) {
        n = (u32[]){0, KR_SOCK_VECTORS + 1, 1024, 0x80000000}[kr_test_below(4)];
        completes = 0;
    } else if (!kr_test_below(10)) { /* beyond the payload's memory, or too long: never touched */
        u32 i = (u32)kr_test_below(n);
        if (kr_test_below(2))
            v[i].at = (u64[]){KR_WINDOW_END + 1 - v[i].len, (u64)sockets, ~0ULL}[kr_test_below(3)];
        else
            v[i].len = (u64[]){KR_SOCK_QUEUE_SIZE, ~0ULL, 1ULL << 63}[kr_test_below(3)];
        completes = 0;
    }
    memcpy(array, v, sizeof v);
    start.rax = __NR_writev;
    start.rsi = (u64)array;
    start.rdx = n;
    return n;
}

static void sends(void) {
    way = KR_WAY_QUEUE;
    changed = queue_changed;
    array = kr_test_window(KR_PAGE);
    fact->way[__NR_writev] = KR_WAY_QUEUE | 2 << KR_WAY_SHIFT;
    fact->way[__NR_write] = KR_WAY_QUEUE;
    fact->way[__NR_sendto] = KR_WAY_QUEUE | 1 << KR_WAY_SHIFT;
    u32 done = 0;
    for (u32 round = 0; round < ROUNDS_SOCKETS; round++) {
        socket_call(__NR_write, __NR_sendto);
        u64 cost = start.rdx + KR_SOCK_SKB, size = KR_SR_HEADER + ((start.rdx + 7) & ~7ULL);
        entry.credit = (u32)(kr_test_below(4) ? cost + kr_test_below(1000) : kr_test_below(2 * cost));
        spent = kr_test_below(4) ? kr_test_below(100) : kr_test_random() << 11;
        if (kr_test_below(4))
            entry.credit += (u32)spent & 127;
        sockets->limit = kr_test_below(6) ? KR_SOCK_QUEUE_SIZE : 0;
        tail = kr_test_below(4) ? 8 * kr_test_below(1000) : KR_SOCK_QUEUE_SIZE - 8 * kr_test_below(20);
        if (!kr_test_below(10))
            tail = kr_test_random() << 11;
        int touches = completes && entry.credit && tail < sockets->limit && tail + size <= sockets->limit;
        completes = touches && spent < entry.credit && spent + cost <= entry.credit;
        expected_result = start.rdx;
        if (start.rax == __NR_write && kr_test_below(2))
            parts(start.rdx);
        else
            bad_buffer(start.rdx, touches);
        one();
        done += completes;
    }
    CHECK(done > ROUNDS_SOCKETS / 8);
    faults = 0;
}

/* ---- the file that the last exit has opened ---- */

static u64 offset; /* of a sendfile, before the call */
static u32 closed;

static u32 left;

static void prepare_file(void) {
    prepare_socket();
    sockets->closed = closed;
    sockets->left = left;
    if (start.rax == __NR_sendfile && !faults)
        memcpy(buffer, &offset, sizeof offset);
}

static void file_changed(int complete) {
    struct kr_sock_record r;
    u32 nr = (u32)start.rax, fd = socket_fd();
    u64 size = nr == __NR_close ? sizeof r : nr == __NR_sendfile ? sizeof r + 8 : 0, now;
    CHECK_EQ(sockets->tail, complete ? tail + size : tail);
    CHECK(sockets->closed == closed || (nr == __NR_close && sockets->closed == sockets->file.gen));
    if (nr == __NR_sendfile && !faults) {
        memcpy(&now, buffer, sizeof now);
        CHECK_EQ(now, offset + (complete ? expected_result : 0));
    }
    if (!complete)
        return;
    memcpy(&r, (u8 *)sockets->queue + tail, sizeof r);
    memcpy(&now, (u8 *)sockets->queue + tail + sizeof r, sizeof now);
    if (nr == __NR_close)
        CHECK(r.fd == fd && !r.len && r.gen == sockets->file.gen && r.kind == KR_SR_CLOSE);
    else if (nr == __NR_sendfile)
        CHECK(r.fd == fd && r.len == expected_result && r.gen == entry.gen && r.kind == KR_SR_FILE &&
              now == offset && sockets->spent[fd] == spent + r.len + KR_SOCK_SKB);
    else
        CHECK(!memcmp(buffer, sockets->file.stat, sizeof sockets->file.stat));
}

static void file_call(void) {
    struct kr_sock_file *f = &sockets->file;
    u32 index = (u32)kr_test_below(4);
    socket_call(__NR_close, __NR_close);
    start.rax = (u64[]){__NR_fstat, __NR_newfstatat, __NR_close, __NR_sendfile}[index];
    buffer = (u8 *)((u64)payload + 2 * KR_PAGE - 144 - 8 * kr_test_below(100));
    completes = 1;
    *f = (struct kr_sock_file){
        .gen = (u32)kr_test_random() | 1, .fd = (u32)start.rdi, .size = kr_test_below(1 << 20)};
    for (u32 i = 0; i < sizeof f->stat; i++)
        f->stat[i] = (u8)kr_test_random();
    start.rsi = (u64)buffer;
    tail = index < 2 ? 0 : 8 * kr_test_below(1000);
    closed = f->gen - 1;
    sockets->limit = KR_SOCK_QUEUE_SIZE;
    expected_result = 0;
    __u64 *place = &start.rsi;
    u64 room = 144;
    if (index == 1) {
        array[0] = 0;
        start.rsi = (u64)array;
        start.rdx = (u64)buffer;
        start.r10 = 0x1000 | kr_test_random() << 32;
        place = &start.rdx;
    } else if (index == 3) {
        start.rdi = kr_test_below(KR_SOCK_FDS);
        start.rsi = f->fd | kr_test_random() << 32;
        start.rdx = (u64)buffer;
        offset = kr_test_below(f->size + 1);
        start.r10 = expected_result = 1 + kr_test_below(KR_SOCK_MOST);
        completes = f->size - offset >= expected_result;
        spent = kr_test_below(1000);
        entry.credit = (u32)(spent + KR_SOCK_SKB + expected_result);
        place = &start.rdx;
        room = 8;
    }
    switch (kr_test_below(14)) {
    case 0:
        f->gen = 0;
        break;
    case 1:
        f->fd ^= 1u << kr_test_below(32);
        break;
    case 2:
        closed = f->gen;
        break;
    case 3:
        if (index < 2)
            tail = 8;
        else
            tail = kr_test_below(2) ? KR_SOCK_QUEUE_SIZE - KR_SR_HEADER + 8 : kr_test_random() << 20;
        break;
    case 4:
        if (index < 2)
            return;
        sockets->limit = 0;
        break;
    case 5: /* a bad address, which is not touched */
        if (index == 2)
            return;
        *place = (u64[]){KR_WINDOW_END - room + 8, KR_WINDOW_END, (u64)sockets, ~0ULL - 7}[kr_test_below(4)];
        break;
    case 6: /* one that faults */
        if (index == 2)
            return;
        *place = (u64)payload + 2 * KR_PAGE;
        faults = 1; /* the offset is read before it is judged */
        break;
    case 7:
        if (index != 1)
            return;
        if (kr_test_below(2))
            array[0] = 'x';
        else
            start.r10 ^= 1u << kr_test_below(32);
        break;
    case 8:
        if (index != 3)
            return;
        entry.credit = kr_test_below(2) ? entry.credit - 1 : 0;
        break;
    case 9:
        if (index != 3)
            return;
        start.r10 = (u64[]){0, KR_SOCK_MOST + 1, ~0ULL, 1ULL << 32}[kr_test_below(4)];
        break;
    case 10:
        if (index != 3)
            return;
        offset = (u64[]){f->size, ~0ULL, 1ULL << 63}[kr_test_below(3)];
        break;
    case 11:
        if (index != 3)
            return;
        start.rdx = kr_test_below(2) ? start.rdx - 1 - kr_test_below(7) : 0;
        buffer = payload;
        break;
    default:
        return;
    }
    completes = 0;
}

/* The file is opened again, by the same path. */
static void open_changed(int complete) {
    struct kr_sock_record r;
    CHECK_EQ(sockets->tail, complete ? tail + sizeof r : tail);
    CHECK(sockets->closed == 0 || (!complete && sockets->closed == closed));
    if (!complete)
        return;
    memcpy(&r, (u8 *)sockets->queue + tail, sizeof r);
    CHECK(r.fd == sockets->file.fd && !r.len && r.gen == sockets->file.gen && r.kind == KR_SR_OPEN);
}

static void open_call(void) {
    struct kr_sock_file *f = &sockets->file;
    int old = (int)kr_test_below(2);
    u32 size = 2 + (u32)kr_test_below(20);
    socket_call(__NR_openat, __NR_openat);
    start.rax = old ? __NR_open : __NR_openat;
    sockets->accepted.gen = 0;
    for (u32 i = 0; i < LONGEST; i++)
        before_call[i] |= 1;
    before_call[size - 1] = 0;
    *f = (struct kr_sock_file){.gen = (u32)kr_test_random() | 1,
                               .fd = (u32)kr_test_below(1000),
                               .dirfd = old ? (u32)-100 : (u32)start.rdi,
                               .flags = (u32)kr_test_random(),
                               .path_size = size};
    memcpy(f->path, before_call, size);
    __u64 *path = old ? &start.rdi : &start.rsi, *flags = old ? &start.rsi : &start.rdx;
    *path = (u64)buffer;
    *flags = f->flags | kr_test_random() << 32;
    tail = 8 * kr_test_below(1000);
    closed = f->gen;
    sockets->limit = KR_SOCK_QUEUE_SIZE;
    expected_result = f->fd;
    completes = 0;
    switch (kr_test_below(20)) {
    case 0:
        f->gen = 0;
        return;
    case 1: /* it is open */
        closed = f->gen - 1;
        return;
    case 2:
        f->path[kr_test_below(size)] ^= (char)(1 << kr_test_below(8));
        return;
    case 3:
        f->path_size = 0;
        return;
    case 4:
        f->dirfd ^= 1u << kr_test_below(32);
        return;
    case 5:
        f->flags ^= 1u << kr_test_below(32);
        return;
    case 6:
        tail = kr_test_below(2) ? KR_SOCK_QUEUE_SIZE - KR_SR_HEADER + 8 : kr_test_random() << 20;
        return;
    case 7:
        sockets->limit = 0;
        return;
    case 8: /* a bad address, which is not touched */
        *path = (u64[]){KR_WINDOW_END - size + 1, KR_WINDOW_END, (u64)f->path, ~0ULL - 7}[kr_test_below(4)];
        return;
    case 9: { /* the path ends where there is no memory */
        u64 there = 1 + kr_test_below(size - 1);
        *path = (u64)payload + 2 * KR_PAGE - there;
        memcpy((void *)*path, before_call, there);
        faults = 1;
        return;
    }
    case 10: /* the connection has been closed, too */
        sockets->accepted.gen = left = (u32)kr_test_random() | 1;
        return;
    case 11:
        sockets->accepted.gen = (left | 1) ^ 2;
        break;
    }
    completes = 1;
}

static void file_calls(void) {
    way = KR_WAY_FILE;
    fact->way[__NR_openat] = KR_WAY_FILE | 4 << KR_WAY_SHIFT;
    fact->way[__NR_open] = KR_WAY_FILE | 5 << KR_WAY_SHIFT;
    changed = open_changed;
    prepare = prepare_file;
    u32 opens = 0;
    for (u32 round = 0; round < ROUNDS_SOCKETS; round++) {
        open_call();
        one();
        opens += completes;
    }
    CHECK(opens > ROUNDS_SOCKETS / 4);
    changed = file_changed;
    prepare = prepare_file;
    fact->way[__NR_fstat] = KR_WAY_FILE;
    fact->way[__NR_newfstatat] = KR_WAY_FILE | 1 << KR_WAY_SHIFT;
    fact->way[__NR_close] = KR_WAY_FILE | 2 << KR_WAY_SHIFT;
    fact->way[__NR_sendfile] = KR_WAY_FILE | 3 << KR_WAY_SHIFT;
    u32 done = 0;
    for (u32 round = 0; round < 2 * ROUNDS_SOCKETS; round++) {
        file_call();
        one();
        done += completes;
    }
    CHECK(done > ROUNDS_SOCKETS / 2);
    faults = 0;
}

/* ---- on the connection that was accepted last ---- */

static u32 length;

static void prepare_accepted(void) {
    prepare_socket();
    sockets->left = left;
    memcpy(array, &length, sizeof length);
}

static void accepted_changed(int complete) {
    struct kr_sock_record r;
    struct kr_sock_accepted *a = &sockets->accepted;
    u32 nr = (u32)start.rax, fd = socket_fd();
    CHECK_EQ(sockets->tail, complete && nr == __NR_close ? tail + sizeof r : tail);
    CHECK(sockets->left == left || (nr == __NR_close && sockets->left == a->gen));
    if (!complete)
        return;
    if (nr == __NR_close) {
        memcpy(&r, (u8 *)sockets->queue + tail, sizeof r);
        CHECK(r.fd == fd && !r.len && r.gen == a->gen && r.kind == KR_SR_LEAVE && sockets->left == a->gen);
        CHECK(sockets->spent[fd] >= 0xffffffff);
    } else if (nr == __NR_getsockname) {
        const struct kr_sock_name *n = fd == a->fd ? &a->name : &a->listener;
        CHECK(!memcmp(buffer, n->addr, n->len) && (u32)array[0] == n->len);
    }
}

static void accepted_call(void) {
    struct kr_sock_accepted *a = &sockets->accepted;
    u32 index = (u32)kr_test_below(4), fd = (u32)kr_test_below(KR_SOCK_FDS), second = 0;
    socket_call(__NR_close, __NR_close);
    start.rax = (u64[]){__NR_getsockname, __NR_fcntl, __NR_ioctl, __NR_close}[index];
    *a = (struct kr_sock_accepted){.gen = (u32)kr_test_random() | 1,
                                   .fd = fd,
                                   .closes = 1,
                                   .fd_flags = (u32)kr_test_below(2),
                                   .flags = (u32)kr_test_below(0x8000),
                                   .nonblock = (u32)kr_test_below(2),
                                   .name = {.fd = fd, .len = kr_test_below(2) ? 16 : 28},
                                   .listener = {.fd = fd ^ 1, .len = kr_test_below(2) ? 16 : 28}};
    for (u32 i = 0; i < KR_SN_MOST; i++)
        a->name.addr[i] = (u8)kr_test_random(), a->listener.addr[i] = (u8)kr_test_random();
    left = a->gen - 1;
    tail = 8 * kr_test_below(1000);
    sockets->limit = KR_SOCK_QUEUE_SIZE;
    sockets->file.gen = 0;
    length = 28 + (u32)kr_test_below(100);
    expected_result = 0;
    completes = 1;
    faults = 0;
    start.rdi = fd | kr_test_random() << 32;
    if (index == 0) {
        second = (u32)kr_test_below(2);
        start.rdi ^= second;
        start.rsi = (u64)buffer;
        start.rdx = (u64)array;
    } else if (index == 1) {
        u32 which = 1 + (u32)kr_test_below(4);
        start.rsi = which | kr_test_random() << 32;
        expected_result = which == 1 ? a->fd_flags : which == 3 ? a->flags : 0;
        completes = which < 4 && (which != 2 || (start.rdx & 1) == a->fd_flags);
    } else if (index == 2) {
        start.rsi = 0x5421 | kr_test_random() << 32;
        start.rdx = (u64)array;
        length = a->nonblock ? (u32)kr_test_random() | 1 : 0;
    } else {
        entry.len = used = kr_test_below(2) ? 100 : 0;
    }
    switch (kr_test_below(10)) {
    case 0:
        a->gen = 0;
        break;
    case 1:
        start.rdi ^= 2;
        break;
    case 2:
        left = a->gen;
        completes &= second;
        return;
    case 3: /* a bad address, which is not touched */
        if (index & 1)
            return;
        *(index == 0 && kr_test_below(2) ? &start.rsi : &start.rdx) =
            (u64[]){KR_WINDOW_END - 3, KR_WINDOW_END, (u64)sockets, ~0ULL - 7}[kr_test_below(4)];
        break;
    case 4: /* one that faults */
        if (index & 1)
            return;
        *(index == 0 && kr_test_below(2) ? &start.rsi : &start.rdx) = (u64)payload + 2 * KR_PAGE;
        faults = 1;
        break;
    case 5:
        if (index == 0)
            length = kr_test_below(2) ? (u32)kr_test_below(16) : (u32)kr_test_random() | 0x80000000;
        else if (index == 2)
            length = !length;
        else if (index == 3)
            a->closes = 0;
        else
            return;
        break;
    case 6:
        if (index == 0)
            start.rdx = start.rsi + kr_test_below(28); /* the length lies in the address */
        else if (index == 2)
            start.rsi ^= 1u << kr_test_below(32);
        else if (index == 3)
            entry.len = 101, used = kr_test_below(101);
        else
            return;
        break;
    case 7:
        if (index == 0)
            (second ? &a->listener : &a->name)->len = 0;
        else if (index == 3)
            tail = KR_SOCK_QUEUE_SIZE - KR_SR_HEADER + 8;
        else
            return;
        break;
    case 8:
        if (index != 3)
            return;
        sockets->limit = 0;
        break;
    default:
        return;
    }
    completes = 0;
}

static void accepted_calls(void) {
    u32 done = 0;
    changed = accepted_changed;
    prepare = prepare_accepted;
    fact->way[__NR_getsockname] = KR_WAY_FILE | 6 << KR_WAY_SHIFT;
    fact->way[__NR_fcntl] = KR_WAY_FILE | 7 << KR_WAY_SHIFT;
    fact->way[__NR_ioctl] = KR_WAY_FILE | 8 << KR_WAY_SHIFT;
    for (u32 round = 0; round < 2 * ROUNDS_SOCKETS; round++) {
        accepted_call();
        one();
        done += completes;
    }
    CHECK(done > ROUNDS_SOCKETS / 2);
    sockets->accepted.gen = 0;
    faults = 0;
}

static void socket_calls(void) {
    long at = kr_sys6(__NR_mmap, KR_SOCK_GVA, KR_SK_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (u64)-1, 0);
    CHECK_EQ(at, KR_SOCK_GVA);
    sockets = (struct kr_sock_area *)at;
    memset(fact, 0, sizeof *fact);
    fact->on = 1;
    prepare = prepare_socket;
    reads();
    sends();
    file_calls();
    accepted_calls();
}

/* The payload can write anything to the call page: the end of a call gives no flags that ring 3 must not have. */
static void ends(void) {
    for (u32 round = 0; round < 100; round++) {
        random_registers();
        u64 save[16] = {0};
        struct kvm_regs r = {0};
        for (u32 i = 0; i < 9; i++)
            save[i] = kr_test_random();
        save[KR_SAVE_R11] = kr_test_random(); /* the payload can write anything there */
        kr_engine_end(save, 77, &r);
        CHECK_EQ(r.rax, 77);
        CHECK_EQ(r.rip, save[KR_SAVE_RCX]);
        CHECK_EQ(r.rflags & ~(KR_FLAGS_USER | KR_FLAGS_FIXED), 0);
        CHECK_EQ(r.rflags & KR_FLAGS_FIXED, KR_FLAGS_FIXED);
    }
}

static void places(void) {
    u64 s = 0x6c0000100000ULL;
    CHECK_EQ(kr_engine_place(s, s), KR_PLACE_OUT);
    CHECK_EQ(kr_engine_place(s, s + 2), KR_PLACE_OUT);
    CHECK_EQ(kr_engine_place(s, s + 3), KR_PLACE_ELSE);
    CHECK_EQ(kr_engine_place(s, s - 1), KR_PLACE_ELSE);
    CHECK_EQ(kr_engine_place(s, s + KR_EO_ENTRY), KR_PLACE_ENTRY);
    CHECK_EQ(kr_engine_place(s, s + KR_EO_ENTRY + 1), KR_PLACE_BEFORE);
    CHECK_EQ(kr_engine_place(s, s + KR_PAGE), KR_PLACE_ELSE);
    CHECK_EQ(kr_engine_place(s, 0), KR_PLACE_ELSE);
    CHECK_EQ(kr_engine_place(s, ~0ULL), KR_PLACE_ELSE);
}

void test_main(void) {
    stub = kr_test_window(PAGES * KR_PAGE);
    stack = kr_test_window(STACK_WORDS * 8);
    memset(stack, 0x5a, STACK_WORDS * 8);
    fact = (struct kr_fact_page *)(stub + KR_EO_FACT);
    call = (struct kr_call_page *)(stub + KR_EO_CALL);
    kr_callpage_code(stub);
    CHECK_EQ(stub[0], 0xe6);
    CHECK_EQ(stub[1], KR_PORT);
    CHECK_EQ(kr_sys3(__NR_mprotect, stub, KR_PAGE, PROT_READ | PROT_EXEC), 0);
    struct kr_altstack alt = {.sp = (u64)kr_test_window(1 << 16), .size = 1 << 16}, old;
    CHECK_EQ(kr_sys2(__NR_sigaltstack, &alt, &old), 0);
    handle(SIGILL);
    handle(SIGTRAP);
    handle(SIGSEGV);
    places();
    facts();
    after();
    actions();
    socket_calls();
    ends();
    kr_sys2(__NR_sigaltstack, &old, 0);
}
