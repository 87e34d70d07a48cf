// Values that hurt: addresses at borders, lengths, descriptors, paths, structures full of all of them.
#include "fuzz.h"

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
    0x69ffffffe000,
    0x69fffffff000,
    0x6a0000000000,
    0x6a0000000001,
    0x6bfffffff000,
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
    "/proc/%d/cwd",
    "/proc/%d/root/..",
    "/proc/%d/exe",
    "/proc/%d/task",
    "/proc/%d/ns/mnt",
    "/proc/%d/fd/3/..",
    "/tmp/l0",
    "/tmp/l1",
    "/tmp/l2",
    "/tmp/l3/..",
    "/tmp/l4/.",
    "/tmp/l5/x",
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

void *spot(u64 room) { return arena + (below(ARENA - room) & ~(below(4) ? 7UL : 0UL)); }

u64 border(void) { return borders[below(COUNT(borders))]; }

// Pids are small numbers here; those of the same second are close to one's own.
u64 process(void) {
    switch (below(6)) {
    case 0:
        return below(3);
    case 1:
        return (u64)getppid();
    case 2:
        return (u64)getpid();
    case 3:
        return (u64)gettid();
    default:
        return (u64)getpid() + below(40) - 12;
    }
}

u64 descriptor(void) {
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

u64 path(void) {
    char *p = spot(256);
    const char *form = paths[below(COUNT(paths))];
    int number = (int)(below(3) ? 1000 + below(60) : below(2000));
    if (strstr(form, "proc/%d"))
        number = (int)process();
    snprintf(p, 200, form, number);
    if (!below(20))
        p[below(40)] = (char)rnd();
    return (u64)p;
}

u64 length(void) { return below(3) ? lengths[below(20)] : lengths[below(COUNT(lengths))]; }

u64 value(void) {
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
u64 structure(void) {
    u64 *p = spot(512), n = 1 + below(32);
    for (u64 i = 0; i < n; i++)
        memcpy(&p[i], &(u64){value()}, 8);
    return (u64)p;
}

u64 message(void) {
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

u64 pointer(void) {
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
