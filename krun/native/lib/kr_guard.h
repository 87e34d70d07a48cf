/* SPDX-License-Identifier: Apache-2.0
 *
 * A protection key (pkeys(7); Intel SDM vol. 3, 4.6.2) on the monitor's own memory: data, heap, system area
 * and page tables of the VM. While a call is forwarded in which all pointers are the payload's, the thread may
 * not write memory under the key. Then the kernel may not write there for the thread, either: a pointer that
 * got past every check is -EFAULT. Host stacks and memory shared with KVM have no key.
 *
 * State: kr_guard, constant once the monitor has relocated itself (RELRO). Key 0: the processor or the kernel
 * has no keys, and all functions do nothing. Each thread has its own PKRU register. clone copies it and execve
 * resets it. The kernel enters a signal handler with only key 0 usable, so the handler calls kr_guard_open
 * first.
 */
#ifndef KR_GUARD_H
#define KR_GUARD_H

#include "kr_sys.h"

#ifndef KR_HOSTED

struct kr_guard {
    u32 key, opened, shut; /* values of PKRU */
};
extern const struct kr_guard kr_guard __attribute__((visibility("hidden")));

/* Takes a key. Called before RELRO is protected and before there is another thread. */
void kr_guard_init(void);
/* Puts [addr, addr+len), memory of the monitor's, under the key. Best effort. */
void kr_guard_memory(u64 addr, u64 len);

static inline void kr_guard_set(u32 pkru) {
    __asm__ volatile("wrpkru" : : "a"(pkru), "c"(0), "d"(0) : "memory");
}

/* Allows the thread to write memory under the key. */
static inline void kr_guard_open(void) {
    if (kr_guard.key)
        kr_guard_set(kr_guard.opened);
}

/* Forbids it. */
static inline void kr_guard_shut(void) {
    if (kr_guard.key)
        kr_guard_set(kr_guard.shut);
}

#else /* the unit tests: no key */

static inline void kr_guard_memory(u64 addr, u64 len) { (void)addr, (void)len; }
static inline void kr_guard_open(void) {}
static inline void kr_guard_shut(void) {}

#endif
#endif
