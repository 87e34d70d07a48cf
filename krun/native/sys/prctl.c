/* SPDX-License-Identifier: Apache-2.0
 *
 * prctl by a table of options. An option takes effect or is refused; none succeeds without effect. Owns
 * KR_PROCF_UNDUMPABLE of proc->flags and clears KR_PROCF_IDS_CHANGED, under mm->lock.
 */
#include "table.h"
#include "../lib/kr_linux.h"
#include "../process/process.h"
#include "../process/bury.h"
#include "../view/ask.h"
#include "../process/board.h"
#include "../machine/mm.h"
#include "../filter/jail.h"
#include "../filter/seccomp.h"
#include "../process/nnp.h"
#include "../filter/above.h"
#include <linux/seccomp.h>

kr_sys_fn sys_seccomp;

/* How an option is served. PLAIN to OUT_4TH: forwarded, and the kind of the second (or fifth) argument. ASK:
 * own(), which makes the host call. OWN: own(), without the host call. NO: refused with err. */
enum how { PLAIN = 1, OUT_INT, IN_NAME, OUT_NAME, OUT_4TH, ASK, OWN, NO };

struct option {
    u32 option;
    u8 how;
    u8 err;
};

/* An option that is not listed gets EINVAL, as on a kernel that does not know it. Options of other CPUs are
 * among these. */
static const struct option options[] = {
    {PR_SET_PDEATHSIG, PLAIN, 0},
    {PR_GET_PDEATHSIG, OUT_INT, 0},
    {PR_GET_DUMPABLE, OWN, 0}, /* the payload's; the monitor never is */
    {PR_SET_DUMPABLE, OWN, 0},
    {PR_GET_KEEPCAPS, PLAIN, 0},
    {PR_SET_KEEPCAPS, PLAIN, 0},
    {PR_GET_TIMING, PLAIN, 0},
    {PR_SET_TIMING, PLAIN, 0},
    {PR_SET_NAME, IN_NAME, 0},
    {PR_GET_NAME, OUT_NAME, 0},
    {PR_GET_SECCOMP, OWN, 0}, /* the payload's filters */
    {PR_SET_SECCOMP, OWN, 0},
    {PR_CAPBSET_READ, PLAIN, 0},
    {PR_CAPBSET_DROP, PLAIN, 0},
    {PR_GET_TSC, OWN, 0},
    {PR_SET_TSC, OWN, 0},
    {PR_GET_SECUREBITS, PLAIN, 0},
    {PR_SET_SECUREBITS, PLAIN, 0},
    {PR_SET_TIMERSLACK, PLAIN, 0},
    {PR_GET_TIMERSLACK, PLAIN, 0},
    {PR_TASK_PERF_EVENTS_DISABLE, PLAIN, 0},
    {PR_TASK_PERF_EVENTS_ENABLE, PLAIN, 0},
    {PR_MCE_KILL, PLAIN, 0},
    {PR_MCE_KILL_GET, PLAIN, 0},
    {PR_SET_MM, NO, EPERM}, /* the kernel's bounds are the monitor's business (kr_publish_mm) */
    {PR_SET_CHILD_SUBREAPER, PLAIN, 0},
    {PR_GET_CHILD_SUBREAPER, OUT_INT, 0},
    {PR_SET_NO_NEW_PRIVS, ASK, 0},
    {PR_GET_NO_NEW_PRIVS, ASK, 0}, /* the payload's; the monitor's is always set (filter/jail.h) */
    {PR_GET_TID_ADDRESS, ASK, 0},  /* the kernel's may be a word of the monitor */
    {PR_SET_THP_DISABLE, PLAIN, 0},
    {PR_GET_THP_DISABLE, PLAIN, 0},
    {PR_CAP_AMBIENT, PLAIN, 0},
    {PR_GET_SPECULATION_CTRL, ASK, 0},
    {PR_SET_SPECULATION_CTRL, NO, ENXIO}, /* would bind the host thread, not the guest's code */
    {PR_SET_IO_FLUSHER, PLAIN, 0},
    {PR_GET_IO_FLUSHER, PLAIN, 0},
    {PR_SET_SYSCALL_USER_DISPATCH, NO, EINVAL}, /* would catch the monitor's own calls */
    {PR_SCHED_CORE, OUT_4TH, 0},
    {PR_SET_MDWE, NO, EINVAL}, /* host mappings are never executable, so the kernel could not enforce it */
    {PR_GET_MDWE, PLAIN, 0},
    {PR_SET_MEMORY_MERGE, NO, EPERM}, /* would merge the monitor's pages with others' */
    {PR_GET_MEMORY_MERGE, PLAIN, 0},
    {PR_TIMER_CREATE_RESTORE_IDS, PLAIN, 0},
    {PR_FUTEX_HASH, PLAIN, 0},
    {PR_SET_PTRACER, NO, EINVAL}, /* as without Yama */
    {PR_SET_VMA, ASK, 0},
    {PR_GET_AUXV, OWN, 0},
};

u32 kr_prctl_forwarded(u32 *out, u32 max) {
    u32 n = 0;
    for (size_t i = 0; i < KR_COUNT(options) && n < max; i++)
        if (options[i].how != OWN && options[i].how != NO)
            out[n++] = options[i].option;
    return n;
}

static long set_dumpable(struct kr_task *t, u64 v) {
    if (v > 1)
        return -EINVAL;
    kr_common_change(t, v ? KR_PROCF_DUMPABLE : KR_PROCF_IDS_CHANGED, v ? 0 : KR_PROCF_UNDUMPABLE);
    return 0;
}

static long set_seccomp(struct kr_task *t, const u64 a[6]) {
    u64 b[6] = {0, 0, 0, 0, 0, 0};
    if (a[1] == SECCOMP_MODE_STRICT) {
        b[0] = SECCOMP_SET_MODE_STRICT; /* the kernel ignores the third argument here */
    } else if (a[1] == SECCOMP_MODE_FILTER) {
        b[0] = SECCOMP_SET_MODE_FILTER;
        b[2] = kr_guest_ptr(a[2], 16);
    } else {
        return -EINVAL;
    }
    return sys_seccomp(t, b);
}

static long name_vma(const u64 a[6]) {
    if (a[1] != 0) /* PR_SET_VMA_ANON_NAME */
        return -EINVAL;
    if (!kr_span_ok(a[2], a[3]))
        return -ENOMEM;
    return kr_call_intr(__NR_prctl, a[0], a[1], a[2], a[3], a[4] ? kr_guest_ptr(a[4], 1) : 0, 0);
}

/* PR_GET_AUXV: the auxiliary vector on the payload's stack. The kernel's copy may be the monitor's. */
static long get_auxv(struct kr_task *t, const u64 a[6]) {
    u8 buf[512];
    if (a[3] || a[4])
        return -EINVAL;
    u64 size = KR_MIN(t->mm->auxv_size, sizeof buf), n = KR_MIN(size, a[2]);
    if (!size)
        return -EINVAL;
    if (kr_copy_in(buf, t->mm->auxv_addr, n) < 0 || kr_copy_out(a[1], buf, n) < 0)
        return -EFAULT;
    return (long)size;
}

static long own(struct kr_task *t, const u64 a[6]) {
    u32 v;
    u64 addr;
    long r;
    switch ((u32)a[0]) {
    case PR_GET_DUMPABLE:
        return kr_dumpable_view(t);
    case PR_SET_DUMPABLE:
        return set_dumpable(t, a[1]);
    case PR_SET_NO_NEW_PRIVS:
        r = kr_forward(__NR_prctl, a); /* checks the arguments */
        if (r == 0)
            kr_nnp_set(t), kr_board_update(t);
        return r;
    case PR_GET_NO_NEW_PRIVS:
        r = kr_forward(__NR_prctl, a);
        return r < 0 ? r : kr_nnp_view(t);
    case PR_GET_SECCOMP:
        return kr_seccomp_mode(t);
    case PR_SET_SECCOMP:
        return set_seccomp(t, a);
    case PR_GET_TSC:
        v = PR_TSC_ENABLE;
        return kr_copy_out(a[1], &v, sizeof v);
    case PR_SET_TSC: /* RDTSC always works in the VM, so only PR_TSC_ENABLE is accepted */
        return (u32)a[1] == PR_TSC_ENABLE ? 0 : -EINVAL;
    case PR_GET_SPECULATION_CTRL:
        r = kr_forward(__NR_prctl, a);
        return r > 0 ? r & ~(long)PR_SPEC_PRCTL : r; /* the payload cannot change it */
    case PR_GET_TID_ADDRESS:
        r = kr_life_tid_address(t, &addr);
        return r < 0 ? r : kr_copy_out(a[1], &addr, sizeof addr);
    case PR_SET_VMA:
        return name_vma(a);
    case PR_GET_AUXV:
        return get_auxv(t, a);
    }
    return -EINVAL;
}

long sys_prctl(struct kr_task *t, const u64 args[6]) {
    u64 a[6];
    memcpy(a, args, sizeof a);
    for (size_t i = 0; i < KR_COUNT(options); i++) {
        const struct option *o = &options[i];
        if (o->option != (u32)a[0])
            continue;
        if (o->how == NO)
            return -(long)o->err;
        for (int k = 1; k < 5; k++) /* numbers stay as they are; no argument is an address of the monitor */
            a[k] = kr_guest_ptr(a[k], 1);
        switch (o->how) {
        case ASK:
        case OWN:
            return own(t, a);
        case OUT_INT:
            a[1] = kr_guest_ptr(a[1], 4);
            break;
        case IN_NAME:
        case OUT_NAME:
            a[1] = kr_guest_ptr(a[1], 16);
            break;
        case OUT_4TH:
            if (a[4])
                a[4] = kr_guest_ptr(a[4], 8);
            break;
        }
        return kr_forward(__NR_prctl, a);
    }
    return -EINVAL;
}
