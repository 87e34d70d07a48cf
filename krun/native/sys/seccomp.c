/* SPDX-License-Identifier: Apache-2.0
 *
 * seccomp(2), served by filter/seccomp.c. No state. Called from dispatch. */
#include "sys.h"
#include "../filter/seccomp.h"

long sys_seccomp(struct kr_task *t, const u64 a[6]) { return kr_seccomp_call(t, (u32)a[0], (u32)a[1], a[2]); }
