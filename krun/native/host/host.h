/* SPDX-License-Identifier: Apache-2.0
 *
 * What the OCI side needs from Linux beyond Python's `os`: thin faces of system calls.
 * Contract of every function here: no policy, no allocation that outlives the call, no output;
 * the result is that of the call, or -errno. Declared to Python by the file of the same name in ../cdef.
 */
#ifndef KR_HOST_H
#define KR_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The raw call, with errno folded into the result: a clone made by kr_clone3 has no pthread state of its own.
 */
#define KR_CALL(...) kr_ret(syscall(__VA_ARGS__))

static inline long kr_ret(long r) { return r < 0 ? -errno : r; }

/* Numbers younger than the oldest headers we build with (Debian 12: Linux 6.1). */
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

#include "../cdef/mount.h"
#include "../cdef/ns.h"
#include "../cdef/path.h"
#include "../cdef/cred.h"
#include "../cdef/fdio.h"
#include "../cdef/tty.h"
#include "../cdef/bpf.h"

#endif
