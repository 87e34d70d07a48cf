/* SPDX-License-Identifier: Apache-2.0
 *
 * keyctl operation by operation. No state, no locks.
 */
#include "nested.h"
#include <linux/keyctl.h>

/* The arguments 1 to 4 that are pointers, one bit each. The kernel checks the lengths: it copies each buffer
 * whole before use. */
static const u8 pointers[] = {
    [KEYCTL_JOIN_SESSION_KEYRING] = 1 << 1,                    /* name */
    [KEYCTL_UPDATE] = 1 << 2,                                  /* payload */
    [KEYCTL_DESCRIBE] = 1 << 2,                                /* buffer */
    [KEYCTL_SEARCH] = 1 << 2 | 1 << 3,                         /* type, description */
    [KEYCTL_READ] = 1 << 2,                                    /* buffer */
    [KEYCTL_INSTANTIATE] = 1 << 2,                             /* payload */
    [KEYCTL_GET_SECURITY] = 1 << 2,                            /* buffer */
    [KEYCTL_DH_COMPUTE] = 1 << 1 | 1 << 2,                     /* parameters, buffer */
    [KEYCTL_PKEY_QUERY] = 1 << 3 | 1 << 4,                     /* info, result */
    [KEYCTL_PKEY_ENCRYPT] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4, /* parameters, info, in, out */
    [KEYCTL_PKEY_DECRYPT] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4,
    [KEYCTL_PKEY_SIGN] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4,
    [KEYCTL_PKEY_VERIFY] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4,
    [KEYCTL_RESTRICT_KEYRING] = 1 << 2 | 1 << 3, /* type, restriction */
    [KEYCTL_CAPABILITIES] = 1 << 1,              /* buffer */
    [KEYCTL_WATCH_KEY] = 0,
};

long sys_keyctl(struct kr_task *t, const u64 args[6]) {
    (void)t;
    u64 a[6];
    memcpy(a, args, sizeof a);
    u32 op = (u32)a[0];
    if (op >= KR_COUNT(pointers))
        return -EOPNOTSUPP;
    /* The parent of the first process, and of exec's, is a process of the host. It would get the payload's session keyring,
     * and so would what it starts (a hook). For a parent inside, the kernel refuses it as soon as KVM has a thread there. */
    if (op == KEYCTL_SESSION_TO_PARENT)
        return -EPERM;
    if (op == KEYCTL_INSTANTIATE_IOV) {
        struct kr_iovs io;
        u64 v = 0, id = (u64)(s64)(s32)a[1], ring = (u64)(s64)(s32)a[4];
        if (!a[2])
            return kr_call_intr(__NR_keyctl, op, id, 0, 0, ring, 0);
        long r = kr_iovs_in(&io, a[2], a[3], &v);
        if (r < 0)
            return r;
        r = kr_call_intr(__NR_keyctl, op, id, v, KR_MIN(a[3], KR_IOV_MAX + 1), ring, 0);
        kr_iovs_drop(&io);
        return r;
    }
    if (op == KEYCTL_DH_COMPUTE && a[4])
        return -EOPNOTSUPP;
    if (op == KEYCTL_WATCH_KEY)
        a[2] = (u32)kr_guest_fd(a[2]);
    for (int i = 1; i < 5; i++) {
        if (pointers[op] >> i & 1)
            a[i] = a[i] ? kr_guest_ptr(a[i], 1) : 0;
        else if (!kr_span_ok(a[i], 1)) /* ids and sizes: small, or a negative 32-bit number */
            a[i] = (u64)(s64)(s32)a[i];
    }
    return kr_forward(__NR_keyctl, a);
}
