// execve while another process changes the strings that the kernel copies; odd limits and personalities
// before it.
#include "fuzz.h"
#include <sys/personality.h>

static const u64 sizes[] = {0,         1,          4096,        65536,         8UL << 20,
                            1UL << 30, 96UL << 40, 128UL << 40, RLIM_INFINITY, RLIM_INFINITY - 1};

static void limit(int which, u64 soft, u64 hard, u64 pid) {
    u64 values[2] = {soft, hard};
    if (pid != 1) // the first process has to go on
        RAW(SYS_prlimit64, pid, (u64)which, (u64)values, 0);
}

void limits(void) {
    static const u64 bits[] = {0x40000,  0x200000, 0x400000,  0x8000000, 0x800000,
                               0x100000, 0x20000,  0x4000000, 0x1000000};
    u64 persona = 0;
    switch (below(4)) {
    case 0:
        for (u64 i = below(4); i > 0; i--)
            persona |= bits[below(COUNT(bits))];
        RAW(SYS_personality, below(8) ? persona : rnd());
        break;
    case 1:
        limit(RLIMIT_NOFILE, 64 + below(4033), 4096, below(2) ? 0 : process());
        break;
    default:
        limit(RLIMIT_STACK, sizes[below(COUNT(sizes))], RLIM_INFINITY, below(2) ? 0 : process());
    }
}

// A string in the stage: long, short, or what only a monitor believes in.
static char *text(void) {
    static const char *const words[] = {"KRUN_BOOT=@1",   "KRUN_BOOT=3", "KRUN_BOOT=@0",
                                        "KRUN_BOOT=1000", "A=",          "KRUN_BOOT=AAAA"};
    char *p = (char *)stage + 8192 + below(STAGE - 8192 - 4200);
    u64 n = below(4) ? below(64) : below(4100);
    if (below(3)) {
        memset(p, 'a' + (int)below(26), n);
        p[n] = 0;
    } else {
        strcpy(p, words[below(COUNT(words))]);
    }
    return p;
}

static void vector(char **at, u64 n) {
    for (u64 i = 0; i < n; i++)
        at[i] = below(40) ? text() : (char *)pointer();
    at[n] = NULL;
}

// What happens to the stage meanwhile, from another process.
static void change(u64 times) {
    for (; times > 0; times--) {
        u64 at = 8192 + below(STAGE - 8192 - 16);
        switch (below(5)) {
        case 0:
            stage[at] = 0;
            break;
        case 1:
            memcpy(stage + at, "KRUN_BOOT=@1", 12);
            break;
        case 2:
            memcpy(stage + 8 * below(64), &(u64){(u64)stage + 8192 + below(STAGE - 8192)}, 8);
            break;
        case 3:
            memset(stage + 8 * below(64), 0, 8);
            break;
        default:
            memset(stage + at, 'b', 16);
        }
        for (volatile u64 i = below(2000); i > 0; i--)
            ;
    }
}

static _Noreturn void execute(void) {
    static const char *const names[] = {"/guest_fuzz", "/guest_fuzz", "/proc/self/exe",
                                        "/tmp/l0",     "/tmp/script", "/tmp/elf0"};
    char **argv = (char **)stage, **envp = (char **)stage + 256;
    vector(argv, 2 + below(30));
    vector(envp, below(200));
    argv[0] = "guest_fuzz", argv[1] = "probe";
    while (!below(3))
        limits();
    static const int others[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_FSIZE};
    if (!below(8))
        limit(others[below(COUNT(others))], below(2) ? below(100) : sizes[below(COUNT(sizes))], RLIM_INFINITY,
              0);
    const char *name = names[below(COUNT(names))];
    switch (below(5)) {
    case 0: {
        int fd = open(name, below(2) ? O_RDONLY : O_PATH | (below(2) ? O_CLOEXEC : 0));
        RAW(SYS_execveat, (u64)fd, (u64) "", (u64)argv, (u64)envp, AT_EMPTY_PATH);
        break;
    }
    case 1:
        name = hostile_program();
        // fall through
    default:
        RAW(SYS_execve, (u64)name, (u64)argv, (u64)envp);
    }
    RAW(SYS_exit_group, 0);
    __builtin_unreachable();
}

void execs(void) {
    if (RAW(SYS_fork) == 0)
        execute();
    if (!below(4)) // a sibling's limit at the moment of its execve
        for (int i = 1; i < 8; i++)
            limit(RLIMIT_STACK, 96UL << 40, RLIM_INFINITY, (u64)(getpid() + i));
    change(200);
    reap(20);
}
