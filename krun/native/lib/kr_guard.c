/* SPDX-License-Identifier: Apache-2.0
 *
 * The protection key on the monitor's memory: see kr_guard.h.
 */
#include "kr_guard.h"
#include "kr_lib.h"
#include <linux/mman.h>

#define INIT_PKRU 0x55555554u /* the value at execve: key 0 only */

/* Written here, before RELRO is protected; every other file sees a constant. */
__asm__(".section .data.rel.ro,\"aw\",@progbits\n"
        ".balign 4\n"
        ".globl kr_guard\n"
        ".hidden kr_guard\n"
        "kr_guard: .zero 12\n"
        ".text\n");

void kr_guard_init(void) {
    long key = kr_sys2(__NR_pkey_alloc, 0, 0);
    if (key <= 0 || key > 15)
        return;
    struct kr_guard *g = (struct kr_guard *)(u64)&kr_guard;
    u32 rights = 3u << (2 * key);
    g->opened = INIT_PKRU & ~rights;
    g->shut = g->opened | 2u << (2 * key); /* no writes */
    __atomic_store_n(&g->key, (u32)key, __ATOMIC_RELEASE);
    kr_guard_set(g->opened);
}

void kr_guard_memory(u64 addr, u64 len) {
    if (kr_guard.key)
        kr_sys4(__NR_pkey_mprotect, addr, len, PROT_READ | PROT_WRITE, kr_guard.key);
}
