// A payload that is as hostile as it can be: random system calls with random and racing arguments, hostile
// signal frames, jumps and privileged instructions.  Run it only inside the container that run.py makes.
//
//   guest_fuzz SEED SECONDS
//
// The first process only starts children and reaps them; each child lives at most two seconds and is expected
// to die in any way but one: exit status 127, the monitor's (children never use it themselves), ends the run
// with status 1.  A child that SIGKILL does not take away is a hang: status 2.  Equal seeds make equal
// children as far as threads allow.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

typedef uint64_t u64;
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ARENA (1UL << 20)
#define CALLS_MAX 470

static __thread u64 state;
static __thread sigjmp_buf back;
static __thread volatile int may_jump;
static unsigned char *arena;

static u64 rnd(void) { // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1DUL;
}
static u64 below(u64 n) { return rnd() % n; }

static u64 raw(u64 nr, const u64 a[6]) {
    u64 r;
    register u64 r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

// ---- values

static const u64 borders[] = {
    0,
    1,
    8,
    0xfff,
    0x1000,
    0xffff,
    0x10000,
    0x4ffffffff000,
    0x4fffffffffff,
    0x4fffffffffc0,
    0x6a0000000000,
    0x6a0000000001,
    0x6fff55554000,
    0x6c0000000000,
    0x6c0000001000,
    0x6c0000002000,
    0x6c0000003000,
    0x6c0000003002,
    0x6c0000100000,
    0x6c0000101000,
    0x6c0000102000,
    0x6c0000103000,
    0x6c00021ff000,
    0x7f0000000000,
    0x7fff00000000,
    0x7ffff7ff0000,
    0x7ffffffff000,
    0x7fffffffffff,
    0x800000000000,
    0x8000000000000000,
    0xffff800000000000,
    0xffffffff81000000,
    0xffffffffff600000,
    0xfffffffffffff000,
    ~0UL,
    ~0UL - 7,
};
static const u64 lengths[] = {
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    12,
    15,
    16,
    24,
    31,
    32,
    48,
    56,
    63,
    64,
    88,
    112,
    128,
    144,
    255,
    256,
    511,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    8192,
    65535,
    65536,
    1 << 20,
    2 << 20,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    0x100000000,
    0x4fffffffffff,
    0x6a0000000000,
    1UL << 62,
    1UL << 63,
    ~0UL,
    ~0UL - 4095,
    (u64)-4096,
    (u64)-8,
};
static const char *const paths[] = {
    "/",
    ".",
    "..",
    "",
    "/proc/self/fd/%d",
    "/proc/self/fd/%d/sys/kernel/core_pattern",
    "/proc/thread-self/fd/%d",
    "/dev/fd/%d",
    "/proc/self/fdinfo/%d",
    "/proc/self/exe",
    "/proc/self/maps",
    "/proc/self/smaps",
    "/proc/self/mem",
    "/proc/self/status",
    "/proc/self/environ",
    "/proc/self/auxv",
    "/proc/self/map_files",
    "/proc/self/task",
    "/proc/self/cwd/../proc/self/fd",
    "/proc/self/root/proc/self/mem",
    "/proc/1/exe",
    "/proc/1/maps",
    "/proc/1/fd/%d",
    "/proc/%d/maps",
    "/proc/%d/fd",
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/kvm",
    "/dev/shm/x",
    "/tmp/a",
    "/tmp/b",
    "/tmp/c/d",
    "/tmp/link",
    "/tmp/fifo",
    "/tmp/sock",
    "/tmp/script",
    "/guest_fuzz",
    "/sys/fs/cgroup",
    "/proc/self/ns/user",
    "/proc/self/ns/mnt",
    "/proc/self/pagemap",
    "/proc/self/clear_refs",
};

static void *spot(u64 room) { return arena + (below(ARENA - room) & ~(below(4) ? 7UL : 0UL)); }

static u64 descriptor(void) {
    switch (below(8)) {
    case 0:
        return 900 + below(200);
    case 1:
        return 1000 + below(3200);
    case 2:
        return (u64)-100; // AT_FDCWD
    case 3:
        return rnd() << 32 | below(64);
    case 4:
        return (u64)-1 - below(3);
    default:
        return 3 + below(60);
    }
}

static u64 path(void) {
    char *p = spot(256);
    snprintf(p, 200, paths[below(COUNT(paths))], (int)(below(3) ? 1000 + below(60) : below(2000)));
    if (!below(20))
        p[below(40)] = (char)rnd();
    return (u64)p;
}

static u64 length(void) { return below(3) ? lengths[below(20)] : lengths[below(COUNT(lengths))]; }

static u64 pointer(void);
static u64 value(void) {
    switch (below(8)) {
    case 0:
        return pointer();
    case 1:
        return descriptor();
    case 2:
        return rnd();
    case 3:
        return borders[below(COUNT(borders))];
    case 4:
        return 1UL << below(64);
    case 5:
        return length();
    default:
        return below(300);
    }
}

// A structure full of values that may be pointers, lengths, descriptors: iovec, msghdr, clone_args,
// sigaction, futex_waitv ... all at once.
static u64 structure(void) {
    u64 *p = spot(512), n = 1 + below(32);
    for (u64 i = 0; i < n; i++)
        memcpy(&p[i], &(u64){value()}, 8);
    return (u64)p;
}

static u64 message(void) {
    u64 *h = spot(512), *iov = spot(512), *c = spot(512);
    u64 n = below(5) ? below(4) : length();
    for (u64 i = 0; i < 4; i++)
        iov[2 * i] = pointer(), iov[2 * i + 1] = length();
    c[0] = below(2) ? 16 + 4 * below(8) : length();
    c[1] = below(4) ? 1UL << 32 | 1 : rnd(); // SOL_SOCKET, SCM_RIGHTS
    for (u64 i = 2; i < 8; i++)
        c[i] = descriptor() << 32 | (uint32_t)descriptor();
    u64 full[8] = {below(2) ? 0 : pointer(),
                   below(128),
                   below(4) ? (u64)iov : pointer(),
                   n,
                   below(4) ? (u64)c : pointer(),
                   below(2) ? c[0] : length(),
                   rnd(),
                   0};
    memcpy(h, full, sizeof full);
    return (u64)h;
}

static u64 pointer(void) {
    switch (below(12)) {
    case 0:
        return borders[below(COUNT(borders))] + below(16) - 8;
    case 1:
        return borders[below(COUNT(borders))] - length();
    case 2:
        return (u64)arena + ARENA - below(64); // runs off the end
    case 3:
        return rnd() & 0x7fffffffffff;
    case 4:
        return path();
    case 5:
    case 6:
        return structure();
    case 7:
        return message();
    case 8:
        return 0;
    default:
        return (u64)spot(4096);
    }
}

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

static void call(u64 nr, u64 a[6]) {
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

static void random_call(void) {
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

static void shaped_call(void) {
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

// ---- processor: jumps, instructions, stack pointers, frames

static void cpu(void) {
    if (sigsetjmp(back, 0))
        return;
    may_jump = 1;
    u64 to = below(3) ? borders[below(COUNT(borders))] + below(4096) : 0x6c0000000000 + below(0x2200000);
    switch (below(14)) {
    case 0:
    case 1:
        __asm__ volatile("jmp *%0" : : "r"(to), "a"(value()), "D"(value()), "S"(value()), "d"(value()));
        break;
    case 2:
        __asm__ volatile("mov %0, %%rsp\n\tpush %%rax" : : "r"(to) : "memory");
        break;
    case 3: // garbage in the stack pointer at a system call and at a fault
        __asm__ volatile("mov %%rsp, %%r12\n\tmov %0, %%rsp\n\tmov $39, %%eax\n\tsyscall\n\tmov %%r12, %%rsp"
                         :
                         : "r"(to)
                         : "rax", "rcx", "r11", "r12", "memory");
        break;
    case 4:
        __asm__ volatile("out %%al, $0x7e" : : "a"(rnd()));
        break;
    case 5:
        __asm__ volatile("hlt");
        break;
    case 6:
        __asm__ volatile("mov %0, %%cr3" : : "r"(rnd()));
        break;
    case 7:
        __asm__ volatile("wrmsr" : : "c"(0xc0000082), "a"((unsigned)rnd()), "d"((unsigned)rnd()));
        break;
    case 8:
        __asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq\n\tnop"
                         :
                         : "r"(below(2) ? 0x100UL : rnd() & 0x277fd5)
                         : "memory", "cc");
        break;
    case 9:
        *(volatile u64 *)to = rnd();
        break;
    case 10:
        (void)*(volatile u64 *)to;
        break;
    case 11:
        __asm__ volatile("int $0x80" : : "a"(rnd()) : "memory", "r8", "r9", "r10", "r11");
        break;
    case 12: {
        unsigned char code[16];
        for (int i = 0; i < 16; i++)
            code[i] = (unsigned char)rnd();
        static unsigned char page[4096] __attribute__((aligned(4096)));
        if (mprotect(page, 4096, 7) == 0) {
            memcpy(page, code, 16);
            page[16] = 0xc3;
            __asm__ volatile("call *%0"
                             :
                             : "r"(page)
                             : "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
        }
        break;
    }
    default: { // a forged signal frame
        u64 *frame = spot(2048);
        for (int i = 0; i < 128; i++)
            frame[i] = value();
        u64 *mc = frame + 1 + 5; // behind pretcode, flags, link, stack
        mc[15] = (u64)spot(64) + 32;
        mc[16] = below(2) ? to : (u64) && landed;
        mc[17] = below(2) ? 0x202 : rnd();
        mc[18] = below(4) ? 0x2b000000000033UL : rnd();
        mc[23] = below(2) ? 0 : (u64)spot(4096);
        __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall" : : "r"(frame + 1) : "memory");
    landed:
        break;
    }
    }
    may_jump = 0;
}

static void handler(int sig, siginfo_t *si, void *context) {
    ucontext_t *uc = context;
    (void)si;
    if (may_jump && sig != SIGALRM) {
        may_jump = 0;
        siglongjmp(back, 1);
    }
    if (sig == SIGALRM) {
        if (!below(100)) // a context that is hostile in one place
            uc->uc_mcontext.gregs[rnd() % 18] = (long long)value();
        return;
    }
    if (!below(64)) // mostly go on somewhere, or die of the next one
        raw(SYS_exit_group, (u64[6]){17});
    uc->uc_mcontext.gregs[REG_RIP] += 2;
}

// ---- a child

static void mutate(void) {
    u64 at = (u64)arena + (below(256) << 12), n = (1 + below(32)) << 12;
    switch (below(8)) {
    case 0:
        mprotect((void *)at, n, (int)below(8));
        break;
    case 1:
        munmap((void *)at, n);
        break;
    case 2:
        mmap((void *)at, n, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 3:
        mremap((void *)at, n, (1 + below(64)) << 12, MREMAP_MAYMOVE | MREMAP_FIXED,
               arena + (below(256) << 12));
        break;
    case 4:
        madvise((void *)at, n, (int)below(30));
        break;
    default: // keeps it usable
        mmap(arena, ARENA, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        for (u64 i = 0; i < 512; i++)
            memcpy(arena + below(ARENA - 8), &(u64){value()}, 8);
    }
}

static void *body(void *arg) {
    state = (u64)arg | 1;
    static __thread char stack[65536];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&ss, NULL);
    for (;;) {
        sigsetjmp(back, 0); // faults of the fuzzer itself end here
        may_jump = 1;
        switch (below(16)) {
        case 0:
            mutate();
            break;
        case 1:
            cpu();
            break;
        case 2:
            if (!below(4))
                raw(SYS_tgkill, (u64[6]){(u64)getpid(), (u64)gettid(), 1 + below(64)});
            break;
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
            shaped_call();
            break;
        default:
            random_call();
        }
    }
    return NULL;
}

static void *small_thread(void *arg) { return arg; }
static void *maker(void *arg) { // threads come and go: vCPUs are made and given back meanwhile
    state = (u64)arg | 1;
    for (;;) {
        pthread_t t;
        if (pthread_create(&t, NULL, small_thread, NULL) == 0)
            pthread_join(t, NULL);
    }
    return NULL;
}

static void child(u64 seed) {
    state = seed * 0x9E3779B97F4A7C15UL | 1;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    arena = mmap(NULL, ARENA, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int null = open("/dev/null", O_RDWR), p[2], s[2];
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    if (pipe(p) || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s))
        _exit(3);
    socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_STREAM, 0), socket(AF_NETLINK, SOCK_RAW, 0);
    memfd_create("m", MFD_ALLOW_SEALING), open("/tmp/a", O_RDWR | O_CREAT, 0600),
        open("/proc/self/fd", O_RDONLY), open("/proc/self", O_PATH);
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    const int sigs[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGALRM, SIGUSR1, SIGRTMIN + 1};
    for (u64 i = 0; i < COUNT(sigs); i++)
        sigaction(sigs[i], &sa, NULL);
    struct itimerval every = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_t t;
    u64 threads = seed % 4;
    for (u64 i = 0; i < threads; i++)
        pthread_create(&t, NULL, i == 2 ? maker : body, (void *)rnd());
    body((void *)rnd());
}

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    u64 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, n = 0, died = 0;
    double end = now() + (argc > 2 ? atof(argv[2]) : 5);
    while (now() < end) {
        u64 s = seed * 1000003 + n++;
        pid_t pid = fork();
        if (pid == 0)
            child(s);
        if (pid < 0)
            continue;
        double until = now() + 1.5, killed = 0;
        for (;;) {
            int status;
            pid_t r = waitpid(-1, &status, WNOHANG);
            if (r > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
                printf("guest_fuzz: seed %lu: process %d: the monitor's exit status\n", s, r);
                return 1;
            }
            if (r == pid)
                break;
            if (!killed && now() > until) {
                kill(-pid, SIGKILL), kill(pid, SIGKILL);
                killed = now(), died++;
            }
            if (killed != 0 && now() > killed + 20) {
                printf("guest_fuzz: seed %lu: process %d survives SIGKILL\n", s, pid);
                return 2;
            }
            if (r <= 0)
                usleep(2000);
        }
        kill(-1, SIGKILL); // what it left behind; we are pid 1 here
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    printf("guest_fuzz: seed %lu: %lu children, %lu ran to the end of their time\n", seed, n, died);
    return 0;
}
