/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw system calls for the freestanding monitor. All return the kernel's value: >= 0 or -errno.
 *
 *   kr_sysN       plain call. A host signal interrupts it (-EINTR), or the kernel restarts it.
 *   kr_call_intr  the same, but no signal is lost before it: see lib/syscall.S and process/hostsig.c. Each call
 *                 that may block for the payload goes through it.
 */
#ifndef KR_SYS_H
#define KR_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <asm/unistd.h>
#include <asm/errno.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

static inline long kr_sys6(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    long ret;
    register u64 r10 __asm__("r10") = d;
    register u64 r8 __asm__("r8") = e;
    register u64 r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#define kr_sys0(nr) kr_sys6(nr, 0, 0, 0, 0, 0, 0)
#define kr_sys1(nr, a) kr_sys6(nr, (u64)(a), 0, 0, 0, 0, 0)
#define kr_sys2(nr, a, b) kr_sys6(nr, (u64)(a), (u64)(b), 0, 0, 0, 0)
#define kr_sys3(nr, a, b, c) kr_sys6(nr, (u64)(a), (u64)(b), (u64)(c), 0, 0, 0)
#define kr_sys4(nr, a, b, c, d) kr_sys6(nr, (u64)(a), (u64)(b), (u64)(c), (u64)(d), 0, 0)
#define kr_sys5(nr, a, b, c, d, e) kr_sys6(nr, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), 0)

/* Result of an interrupted call that must be executed again after the signal: the kernel chose to restart it, or
 * it had not begun. Dispatch sets the payload back to its SYSCALL instruction. */
#define KR_ERESTART 512

/* Called on a task's own thread (it uses %fs). Returns the kernel's value or -KR_ERESTART. */
long kr_call_intr(long nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f);

#endif
