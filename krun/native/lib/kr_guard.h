/* SPDX-License-Identifier: Apache-2.0
 *
 * A protection key (pkeys(7); Intel SDM vol. 3, 4.6.2) on the monitor's own memory: data, heap, system area
 * and page tables of the VM. While a call is forwarded whose pointers are all the payload's, the thread may
 * not write memory under the key, and so neither may the kernel for it: a pointer that got past every check
 * is -EFAULT there. Host stacks and what is shared with KVM have no key.
 *
 * State: kr_guard, constant once the monitor has relocated itself (RELRO). Key 0: the processor or the kernel
 * has none, and everything here does nothing. The register is each thread's own; clone copies it, execve
 * resets it, and the kernel enters a signal handler with no key but 0 usable: the handler opens first.
 */
#ifndef KR_GUARD_H
#define KR_GUARD_H

#include "kr_sys.h"

#ifndef KR_HOSTED

struct kr_guard {
    u32 key, opened, shut; /* values of PKRU */
};
extern const struct kr_guard kr_guard __attribute__((visibility("hidden")));

/* Takes a key. Before RELRO is protected and before any other thread is. */
void kr_guard_init(void);
/* Puts [addr, addr+len), memory of the monitor's, under the key; best effort. */
void kr_guard_memory(u64 addr, u64 len);

static inline void kr_guard_set(u32 pkru) {
    __asm__ volatile("wrpkru" : : "a"(pkru), "c"(0), "d"(0) : "memory");
}

static inline void kr_guard_open(void) {
    if (kr_guard.key)
        kr_guard_set(kr_guard.opened);
}

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
