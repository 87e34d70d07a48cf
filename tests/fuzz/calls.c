// System calls: at random, and by shape.
#include "fuzz.h"

#define CALLS_MAX 470

// ---- what must not be called, or only bounded

static int skip(u64 nr) {
    switch (nr) {
    case SYS_sync: // the host's disks have better things to do
    case SYS_syncfs:
    case SYS_reboot:
    case SYS_vhangup:
    case SYS_pause:
    case SYS_swapon:
        return 1;
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
    case SYS_execve:
    case SYS_execveat:
        return below(20) != 0;
    case SYS_exit:
    case SYS_exit_group:
    case SYS_munmap: // of what we stand on
    case SYS_brk:
    case SYS_rt_sigreturn:
    case SYS_kill:
    case SYS_close:
    case SYS_close_range:
    case SYS_set_tid_address:
    case SYS_arch_prctl:
    case SYS_seccomp:
    case SYS_setrlimit:
    case SYS_prlimit64:
    case SYS_unshare:
        return below(8) != 0;
    }
    return 0;
}

void call(u64 nr, u64 a[6]) {
    static const u64 common[] = {SYS_mmap,
                                 SYS_mprotect,
                                 SYS_mremap,
                                 SYS_madvise,
                                 SYS_munmap,
                                 SYS_openat,
                                 SYS_dup2,
                                 SYS_dup3,
                                 SYS_dup,
                                 SYS_ioctl,
                                 SYS_fcntl,
                                 SYS_futex,
                                 SYS_sendmsg,
                                 SYS_recvmsg,
                                 SYS_sendmmsg,
                                 SYS_readv,
                                 SYS_writev,
                                 SYS_prctl,
                                 SYS_clone,
                                 SYS_rt_sigaction,
                                 SYS_read,
                                 SYS_write,
                                 SYS_poll,
                                 SYS_ppoll,
                                 SYS_select,
                                 SYS_pselect6,
                                 SYS_sigaltstack,
                                 SYS_readlink,
                                 SYS_stat,
                                 SYS_open,
                                 SYS_getdents64,
                                 SYS_shmat,
                                 SYS_set_robust_list,
                                 SYS_timer_create,
                                 SYS_rt_sigqueueinfo,
                                 SYS_openat2,
                                 SYS_pipe,
                                 SYS_socketpair,
                                 SYS_mincore,
                                 SYS_execve,
                                 449 /* futex_waitv */,
                                 428 /* open_tree */};
    if (nr == ~0UL)
        nr = below(2) ? common[below(COUNT(common))] : below(CALLS_MAX);
    if (skip(nr))
        return;
    if (nr == SYS_exit || nr == SYS_exit_group)
        a[0] &= 63; // 127 is the monitor's
    if (nr == SYS_kill && (int)a[0] == -1)
        a[0] = 0;
    if ((nr == SYS_mmap || nr == SYS_mremap) && below(2)) // near the arena, not over our own code
        a[0] = (u64)arena + (below(300) << 12), a[1] = 1 + below(1 << 16);
    if (nr == SYS_clone && (a[0] & CLONE_VM))
        a[1] = (u64)spot(65536) + 32768;
    if (!below(30))
        nr |= rnd() << 32; // the kernel looks at 32 bits
    u64 r = raw(nr, a);
    if (nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone || nr == SYS_clone3)
        if (r == 0) { // a child of the child: short
            for (int i = 0; i < 5; i++) {
                u64 b[6] = {value(), value(), value(), value(), value(), value()};
                u64 n = below(CALLS_MAX);
                if (n != SYS_fork && n != SYS_vfork && n != SYS_clone && n != SYS_clone3 && !skip(n))
                    raw(n == SYS_exit_group || n == SYS_exit ? SYS_getpid : n, b);
            }
            raw(SYS_exit_group, (u64[6]){below(64)});
        }
}

void random_call(void) {
    u64 a[6];
    for (int i = 0; i < 6; i++)
        switch (below(6)) {
        case 0:
            a[i] = descriptor();
            break;
        case 1:
            a[i] = length();
            break;
        case 2:
            a[i] = path();
            break;
        case 3:
            a[i] = pointer();
            break;
        default:
            a[i] = value();
        }
    call(~0UL, a);
}

// ---- the calls by shape, so that more of them get past their first check

void shaped_call(void) {
    u64 fd = descriptor();
    switch (below(18)) {
    case 0:
        call(SYS_openat, (u64[6]){below(3) ? (u64)AT_FDCWD : fd, path(),
                                  below(3) ? below(4) : rnd() & 0x7fffff, below(512)});
        break;
    case 1:
        call(below(2) ? SYS_sendmsg : SYS_recvmsg, (u64[6]){3 + below(12), message(), MSG_DONTWAIT});
        break;
    case 2:
        call(below(2) ? 299 : 307,
             (u64[6]){3 + below(12), message(), below(5) ? below(4) : length(), MSG_DONTWAIT, 0});
        break;
    case 3: {
        u64 *p = spot(512);
        for (int i = 0; i < 8; i++)
            p[2 * i] = pointer(), p[2 * i + 1] = length();
        call(below(2) ? SYS_readv : SYS_writev,
             (u64[6]){3 + below(12), (u64)p, below(4) ? below(9) : length()});
        break;
    }
    case 4:
        call(SYS_fcntl, (u64[6]){fd, below(2) ? below(20) : 1024 + below(20), value()});
        break;
    case 5:
        call(SYS_ioctl, (u64[6]){3 + below(40),
                                 below(2)   ? 0x5400 + below(0x60)
                                 : below(2) ? 0x8900 + below(0x100)
                                            : 0xae00 + below(0x100),
                                 pointer()});
        break;
    case 6:
        call(SYS_dup2, (u64[6]){3 + below(20), below(2) ? 1000 + below(100) : descriptor()});
        break;
    case 7:
        call(SYS_futex, (u64[6]){pointer() & ~3UL, below(16) | 128, below(8), below(2) ? below(8) : pointer(),
                                 pointer(), value()});
        break;
    case 8: {
        u64 *p = spot(512);
        u64 n = 1 + below(8);
        for (u64 i = 0; i < n; i++)
            p[3 * i] = below(4), p[3 * i + 1] = pointer(), p[3 * i + 2] = 2 | 128;
        u64 *ts = spot(16);
        ts[0] = 0, ts[1] = 1000;
        call(449, (u64[6]){(u64)p, below(3) ? n : length(), 0, (u64)ts, 1});
        break;
    }
    case 9: {
        u64 *p = spot(32);
        p[0] = below(2) ? below(3) : value(), p[1] = rnd(), p[2] = value(), p[3] = rnd();
        u64 sig = 1 + below(64); // SIGALRM and the faults keep their handlers most of the time
        if (sig != SIGALRM && (below(8) || (sig != SIGSEGV && sig != SIGBUS && sig != SIGILL &&
                                            sig != SIGTRAP && sig != SIGFPE)))
            call(SYS_rt_sigaction, (u64[6]){sig, (u64)p, below(2) ? 0 : pointer(), 8});
        break;
    }
    case 10:
        call(SYS_prctl, (u64[6]){below(80), value(), value(), value(), value()});
        break;
    case 11: {
        u64 *p = spot(16);
        p[0] = below(9), p[1] = pointer();
        call(SYS_setsockopt, (u64[6]){3 + below(12), 1, below(2) ? 26 : below(80), (u64)p, 16});
        break;
    }
    case 12: { // an iovec's worth of signal information, to ourselves: any si_code is allowed
        int *p = spot(128);
        p[0] = 1 + (int)below(64), p[1] = below(2) ? (int)below(8) : (int)rnd(), p[2] = (int)rnd();
        call(SYS_rt_sigqueueinfo,
             (u64[6]){(u64)getpid(), below(3) ? below(2) ? SIGSEGV : SIGBUS : 1 + below(64), (u64)p});
        break;
    }
    case 13:
        call(428, (u64[6]){(u64)AT_FDCWD, path(), 0});
        break;
    case 14: {
        u64 *p = spot(128);
        for (int i = 0; i < 11; i++)
            p[i] = value();
        p[0] = below(2) ? CLONE_VM | CLONE_VFORK : below(2) ? 0 : rnd();
        p[4] = below(65);
        call(SYS_clone3, (u64[6]){(u64)p, below(2) ? 88 : length()});
        break;
    }
    case 15: { // AIO: control blocks that change while they are taken (all threads use the same few)
        static u64 context, *block;
        if (!block)
            block = spot(8192);
        if (!context)
            raw(SYS_io_setup, (u64[6]){1 + below(64), (u64)&context});
        u64 *l = spot(512), n = 1 + below(16), *ts = spot(16);
        for (u64 i = 0; i < n; i++) {
            u64 *b = block + 8 * below(16);
            b[0] = rnd(), b[1] = below(9) ? 0 : rnd();
            b[2] = below(9) | below(50) << 32 | (below(6) ? 0 : rnd() << 16);
            if (!below(4))
                b[2] = (b[2] & 0xffffffff) | descriptor() << 32;
            b[3] = below(3) ? (u64)spot(4096) : pointer(), b[4] = below(3) ? below(64) : length();
            b[5] = below(3) ? below(8192) : rnd(), b[6] = below(20) ? 0 : rnd();
            b[7] = below(4) ? 0 : below(3) | descriptor() << 32;
            l[i] = below(12) ? (u64)b : pointer();
        }
        ts[0] = 0, ts[1] = 1000;
        call(SYS_io_submit, (u64[6]){below(20) ? context : value(), below(20) ? n : length(), (u64)l});
        call(SYS_io_getevents,
             (u64[6]){context, below(3), below(30), below(9) ? (u64)spot(1024) : pointer(), (u64)ts});
        if (!below(8))
            call(SYS_io_cancel, (u64[6]){context, l[0], pointer()});
        if (!below(60))
            call(SYS_io_destroy, (u64[6]){context}), context = 0;
        break;
    }
    case 16: // filters and rulesets
        call(below(2) ? SYS_seccomp : SYS_prctl,
             (u64[6]){below(2) ? 22 : below(5), below(3) ? below(8) : rnd(), below(2) ? pointer() : 0});
        break;
    default:
        call(SYS_mmap, (u64[6]){below(2) ? 0 : (u64)arena + (below(512) << 12), 1 + below(1 << 18), below(8),
                                below(2) ? 0x22 : rnd() & 0x1fffff, fd, below(2) ? 0 : below(64) << 12});
    }
}
