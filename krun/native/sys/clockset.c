/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that set a clock: forwarded. Afterwards the guest's vDSO must read the clock again (machine/vdso.h).
 * No state. Called from dispatch. */
#include "sys.h"
#include "../machine/vdso.h"

static long set_clock(struct kr_task *t, long nr, const u64 a[6]) {
    long r = kr_forward(nr, a);
    if (r >= 0)
        kr_vdso_clock_set(t->mm);
    return r;
}

long sys_adjtimex(struct kr_task *t, const u64 a[6]) { return set_clock(t, __NR_adjtimex, a); }
long sys_settimeofday(struct kr_task *t, const u64 a[6]) { return set_clock(t, __NR_settimeofday, a); }
long sys_clock_settime(struct kr_task *t, const u64 a[6]) { return set_clock(t, __NR_clock_settime, a); }
long sys_clock_adjtime(struct kr_task *t, const u64 a[6]) { return set_clock(t, __NR_clock_adjtime, a); }
