/* SPDX-License-Identifier: Apache-2.0
 * lib/kr_guard.c with a real key: what is under it can be read by a forwarded call and not written, a signal
 * handler can open it, and what was shut is shut again behind the handler. Without protection keys (AMD
 * before Zen 3, many VMs) there is no key, and everything is as without. Sources: kr_alloc.c */
#include "harness.h"
#undef KR_HOSTED
#include "lib/kr_guard.c"
#include <asm/signal.h>

static u8 *page;
static volatile u32 handled;

static u32 rdpkru(void) {
    u32 a, d;
    __asm__ volatile("rdpkru" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

static void handler(int sig) {
    (void)sig;
    kr_guard_open();
    page[1]++;
    handled++;
}

__asm__(".text\nguard_restorer:\n    mov $15, %eax\n    syscall\n");
void guard_restorer(void);

static void signals(void) {
    struct {
        void (*handler)(int);
        u64 flags;
        void (*restorer)(void);
        u64 mask;
    } act = {handler, 0x04000000 /* SA_RESTORER */, guard_restorer, 0}, old;
    CHECK_EQ(kr_sys4(__NR_rt_sigaction, 10, &act, &old, 8), 0);
    u8 before = page[1];
    kr_guard_shut();
    kr_sys2(__NR_kill, kr_sys0(__NR_getpid), 10);
    u32 after = rdpkru();
    kr_guard_open();
    CHECK_EQ(handled, 1);
    CHECK_EQ(page[1], before + 1);
    CHECK_EQ(after, kr_guard.shut);
    kr_sys4(__NR_rt_sigaction, 10, &old, 0, 8);
}

void test_main(void) {
    u64 at = KR_PAGE_DOWN(&kr_guard);
    CHECK_EQ(kr_sys3(__NR_mprotect, at, KR_PAGE_UP((u64)(&kr_guard + 1)) - at, PROT_READ | PROT_WRITE), 0);
    page = kr_test_window(KR_PAGE);
    kr_guard_init();
    kr_guard_memory((u64)page, KR_PAGE);
    int zero = (int)kr_sys3(__NR_open, "/dev/zero", 0, 0), null = (int)kr_sys3(__NR_open, "/dev/null", 1, 0);
    kr_guard_shut();
    long r = kr_sys3(__NR_read, zero, page, 1), w = kr_sys3(__NR_write, null, page, 1);
    kr_guard_open();
    CHECK_EQ(w, 1);
    CHECK_EQ(r, kr_guard.key ? -EFAULT : 1);
    CHECK_EQ(kr_sys3(__NR_read, zero, page, 1), 1);
    if (kr_guard.key)
        signals();
    kr_sys1(__NR_close, zero);
    kr_sys1(__NR_close, null);
}
