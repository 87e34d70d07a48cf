/* SPDX-License-Identifier: Apache-2.0
 *
 * prctl by a table of options. An option takes effect or is refused; none succeeds without effect. Owns one
 * bit of proc->flags (KR_PROCF_UNDUMPABLE). No locks.
 */
#include "table.h"
#include "../process/process.h"
#include "../view/ask.h"
#include "../process/board.h"
#include "../machine/mm.h"
#include "../filter/jail.h"
#include "../filter/seccomp.h"
#include "../process/nnp.h"
#include "../filter/above.h"
#include <linux/prctl.h>
#include <linux/seccomp.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

kr_sys_fn sys_seccomp;

/* How an option is served. PLAIN to OUT_4TH: forwarded, and the kind of the second (or fifth) argument. ASK:
 * own(), which makes the host call. OWN: own(), without the host call. NO: refused with err. */
enum how { PLAIN = 1, OUT_INT, OUT_LONG, IN_NAME, OUT_NAME, OUT_4TH, ASK, OWN, NO };

struct option {
    u32 option;
    u8 how;
    u8 err;
};

/* An option that is not listed gets EINVAL, as on a kernel that does not know it. Options of other CPUs are
 * among these. */
static const struct option options[] = {
    {1, PLAIN, 0},     /* SET_PDEATHSIG */
    {2, OUT_INT, 0},   /* GET_PDEATHSIG */
    {3, OWN, 0},       /* GET_DUMPABLE: the payload's; the monitor never is */
    {4, OWN, 0},       /* SET_DUMPABLE */
    {7, PLAIN, 0},     /* GET_KEEPCAPS */
    {8, PLAIN, 0},     /* SET_KEEPCAPS */
    {13, PLAIN, 0},    /* GET_TIMING */
    {14, PLAIN, 0},    /* SET_TIMING */
    {15, IN_NAME, 0},  /* SET_NAME */
    {16, OUT_NAME, 0}, /* GET_NAME */
    {21, OWN, 0},      /* GET_SECCOMP: the payload's filters */
    {22, OWN, 0},      /* SET_SECCOMP */
    {23, PLAIN, 0},    /* CAPBSET_READ */
    {24, PLAIN, 0},    /* CAPBSET_DROP */
    {25, OWN, 0},      /* GET_TSC */
    {26, OWN, 0},      /* SET_TSC */
    {27, PLAIN, 0},    /* GET_SECUREBITS */
    {28, PLAIN, 0},    /* SET_SECUREBITS */
    {29, PLAIN, 0},    /* SET_TIMERSLACK */
    {30, PLAIN, 0},    /* GET_TIMERSLACK */
    {31, PLAIN, 0},    /* TASK_PERF_EVENTS_DISABLE */
    {32, PLAIN, 0},    /* TASK_PERF_EVENTS_ENABLE */
    {33, PLAIN, 0},    /* MCE_KILL */
    {34, PLAIN, 0},    /* MCE_KILL_GET */
    {35, NO, EPERM},   /* SET_MM: the kernel's bounds are the monitor's business (kr_publish_mm) */
    {36, PLAIN, 0},    /* SET_CHILD_SUBREAPER */
    {37, OUT_INT, 0},  /* GET_CHILD_SUBREAPER */
    {38, ASK, 0},      /* SET_NO_NEW_PRIVS */
    {39, ASK, 0},      /* GET_NO_NEW_PRIVS: the payload's; the monitor's is always set (filter/jail.h) */
    {40, OUT_LONG, 0}, /* GET_TID_ADDRESS */
    {41, PLAIN, 0},    /* SET_THP_DISABLE */
    {42, PLAIN, 0},    /* GET_THP_DISABLE */
    {47, PLAIN, 0},    /* CAP_AMBIENT */
    {52, ASK, 0},      /* GET_SPECULATION_CTRL */
    {53, NO, ENXIO},   /* SET_SPECULATION_CTRL: would bind the host thread, not the guest's code */
    {57, PLAIN, 0},    /* SET_IO_FLUSHER */
    {58, PLAIN, 0},    /* GET_IO_FLUSHER */
    {59, NO, EINVAL},  /* SET_SYSCALL_USER_DISPATCH: would catch the monitor's own calls */
    {62, OUT_4TH, 0},  /* SCHED_CORE */
    {65, NO, EINVAL},  /* SET_MDWE: host mappings are never executable, so the kernel could not enforce it */
    {66, PLAIN, 0},    /* GET_MDWE */
    {67, NO, EPERM},   /* SET_MEMORY_MERGE: would merge the monitor's pages with others' */
    {68, PLAIN, 0},    /* GET_MEMORY_MERGE */
    {77, PLAIN, 0},    /* TIMER_CREATE_RESTORE_IDS */
    {78, PLAIN, 0},    /* FUTEX_HASH */
    {PR_SET_PTRACER, NO, EINVAL}, /* as without Yama */
    {0x53564d41, ASK, 0},         /* SET_VMA */
    {0x41555856, OWN, 0},         /* GET_AUXV */
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
    t->proc->dump_uid = (u32)kr_sys0(__NR_geteuid);
    t->proc->dump_gid = (u32)kr_sys0(__NR_getegid);
    if (v)
        __atomic_and_fetch(&t->proc->flags, ~KR_PROCF_UNDUMPABLE, __ATOMIC_RELAXED);
    else
        __atomic_or_fetch(&t->proc->flags, KR_PROCF_UNDUMPABLE, __ATOMIC_RELAXED);
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
    case 0x53564d41:
        return name_vma(a);
    case 0x41555856:
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
        case OUT_LONG:
            a[1] = kr_guest_ptr(a[1], 8);
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
