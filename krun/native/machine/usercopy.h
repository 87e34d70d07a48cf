/* SPDX-License-Identifier: Apache-2.0
 *
 * The only ways from monitor code to guest memory. Guest data is hostile and other vCPUs may change it at any
 * moment: copy in once, check, use the copy. A fault during a copy is -EFAULT (lib/syscall.S, process/hostsig.c).
 */
#ifndef KR_USERCOPY_H
#define KR_USERCOPY_H

#include "vmm.h"

/* True if [addr, addr+len) lies in the guest's window. A null pointer with len > 0 is inside by this rule
 * (nothing is mapped there: the access faults). THE pointer check. */
static inline int kr_span_ok(u64 addr, u64 len) {
    return addr < KR_WINDOW_END && len <= KR_WINDOW_END - addr;
}

long kr_copy_raw(void *dst, const void *src, size_t n);
long kr_copy_str_raw(char *dst, const char *src, size_t max);
long kr_cas32_raw(u32 *p, u32 old, u32 new_value, u32 *seen);
/* What a read (and with `write` a write) of the word at p raises on the host: 0, SIGSEGV or SIGBUS. Changes
 * nothing. */
long kr_touch_raw(u32 *p, long write);

/* 0 or -EFAULT. */
static inline long kr_copy_in(void *dst, u64 src, size_t n) {
    return kr_span_ok(src, n) ? kr_copy_raw(dst, (const void *)src, n) : -EFAULT;
}

static inline long kr_copy_out(u64 dst, const void *src, size_t n) {
    return kr_span_ok(dst, n) ? kr_copy_raw((void *)dst, src, n) : -EFAULT;
}

/* Copies a string with its NUL into dst[max]. Length without NUL; -EFAULT; -ENAMETOOLONG when it does not end
 * in max bytes. */
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
