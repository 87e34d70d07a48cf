/* SPDX-License-Identifier: Apache-2.0
 *
 * The only functions by which the monitor reads and writes guest memory. Guest data is hostile, and other
 * vCPUs may change it at any moment: copy it in once, check the copy, use the copy. A fault during a copy is
 * -EFAULT (lib/syscall.S, process/hostsig.c).
 */
#ifndef KR_USERCOPY_H
#define KR_USERCOPY_H

#include "vmm.h"

/* THE pointer check: true if [addr, addr+len) lies below KR_WINDOW_END. A null pointer passes; nothing is mapped at
 * address 0, so the access faults. */
static inline int kr_span_ok(u64 addr, u64 len) {
    return addr < KR_WINDOW_END && len <= KR_WINDOW_END - addr;
}

/* lib/syscall.S. They do not check the address: callers have passed it through kr_span_ok. 0 or -EFAULT. */
long kr_copy_raw(void *dst, const void *src, size_t n);
long kr_copy_str_raw(char *dst, const char *src, size_t max);
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen);
long kr_add64_raw(u64 *p, u64 n);
/* The word at p, or -EFAULT. */
long kr_load32_raw(const u32 *p);
/* Reads the word at p, and with `write` stores the same value again. Returns the signal that this raises on
 * the host (SIGSEGV, SIGBUS), or 0. */
long kr_touch_raw(u32 *p, long write);

/* Copies n bytes from guest memory. 0 or -EFAULT. */
static inline long kr_copy_in(void *dst, u64 src, size_t n) {
    return kr_span_ok(src, n) ? kr_copy_raw(dst, (const void *)src, n) : -EFAULT;
}

/* Copies n bytes to guest memory. 0 or -EFAULT: a part may have been written. */
static inline long kr_copy_out(u64 dst, const void *src, size_t n) {
    return kr_span_ok(dst, n) ? kr_copy_raw((void *)dst, src, n) : -EFAULT;
}

/* Copies a string with its NUL from guest memory into dst[max]. The length without NUL; -EFAULT;
 * -ENAMETOOLONG: the string does not end within max bytes. */
static inline long kr_copy_str(char *dst, u64 src, size_t max) {
    if (!kr_span_ok(src, 1))
        return -EFAULT;
    size_t room = KR_WINDOW_END - src < max ? KR_WINDOW_END - src : max;
    long n = kr_copy_str_raw(dst, (const char *)src, room);
    if (n >= 0 && (size_t)n == room)
        return room == max ? -ENAMETOOLONG : -EFAULT;
    return n;
}

#endif
