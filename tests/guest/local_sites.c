// System calls that a program makes often, at one place: they stay what they are while the text is written,
// unmapped, replaced, moved, forked, stepped through and read, while signals come, and where a jump leads
// into the middle. mprotect(2), sigreturn(2). krun: timeout=60
#include "guest.h"
#include <spawn.h>
#include <sys/uio.h>
#include <ucontext.h>

// The text, which lies in a file of its own. What is called often enough is jumped to from every entry.
extern const char text[], text_end[], number[], number_second[], number_end[], compare[], compare_call[],
    compare_second[], flags_call[], flags_second[];
__asm__(".pushsection .rodata\n"
        ".balign 4096\n text: .skip 4090, 0x90\n" // a site lies across two pages
        "number: mov $39,%eax\n number_second: syscall\n number_end: ret\n"
        ".skip 61, 0x90\n"
        "compare: mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; mov %rcx,%rdx; mov %r8,%r10\n"
        "compare_call: syscall\n compare_second: cmp $-4096,%rax; ja 1f; ret\n 1: neg %rax; sub "
        "$1000000,%rax; ret\n"
        ".skip 61, 0x90\n"
        "flags_call: syscall\n flags_second: cmp $-4095,%rax; pushf; pop %rax; ret\n"
        ".balign 4096, 0x90\n .skip 4096, 0x90\n text_end: .popsection\n");

#define SIZE (3 * PAGE)
#define OFF(label) ((size_t)((label)-text))
#define OFTEN 1200

static char *code;
static char name[] = "text";

static char *map(const char *file, void *at, int prot, int flags) {
    int fd = MUST(open(file, O_RDONLY));
    char *p = mmap(at, SIZE, prot, MAP_PRIVATE | MAP_DENYWRITE | flags, fd, 0);
    close(fd);
    return p;
}

// nr: of the first site; limit: what the results of the second one are compared with.
static void write_text(const char *file, int nr, int limit) {
    static char copy[SIZE];
    memcpy(copy, text, OFF(text_end));
    memcpy(copy + OFF(number) + 1, &nr, 4);
    memcpy(copy + OFF(compare_second) + 2, &limit, 4);
    int fd = MUST(open(file, O_CREAT | O_TRUNC | O_WRONLY, 0644));
    EXPECT(write(fd, copy, SIZE) == (ssize_t)SIZE);
    close(fd);
}

static long call_number(const char *base) { return ((long (*)(void))(base + OFF(number)))(); }
static long call(const char *base, long nr, long a, long b, long c, long d) {
    return ((long (*)(long, long, long, long, long))(base + OFF(compare)))(nr, a, b, c, d);
}
// A jump to `to` with rax, flags with or without CF; rax behind it.
static long jump(const char *to, long rax, int carry) {
    __asm__ volatile("sub $128,%%rsp; cmp %k[one],%k[carry]; call *%[to]; add $128,%%rsp"
                     : "+&a"(rax)
                     : [to] "r"(to), [carry] "r"(carry), [one] "r"(1)
                     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
    return rax;
}

static int often(const char *base, long one, long other) {
    int bad = 0;
    for (int i = 0; i < OFTEN; i++) {
        bad += call_number(base) != one;
        bad += call(base, SYS_getpid, 0, 0, 0, 0) != other;
        bad += !jump(base + OFF(flags_call), SYS_getpid, i & 1);
    }
    return bad;
}

// All registers but rax, rcx, r11 stay; rcx is the return address, r11 has the flags; nothing below rsp
// changes.
static int registers(const char *to, long rax, const char *ret) {
    long in[12], bad = 0;
    for (int i = 0; i < 12; i++)
        in[i] = 0x1234567 * (i + 3) ^ rax;
    __asm__ volatile(
        "sub $1024,%%rsp; mov %[in],512(%%rsp); mov %[ret],520(%%rsp); mov %%rbp,528(%%rsp)\n"
        "mov %[to],536(%%rsp); mov %%rax,544(%%rsp); mov %%rbx,552(%%rsp)\n"
        "mov 0(%[in]),%%rdi; mov 8(%[in]),%%rsi; mov 16(%[in]),%%rdx; mov 24(%[in]),%%r8\n"
        "mov 32(%[in]),%%r9; mov 40(%[in]),%%r10; mov 48(%[in]),%%r12; mov 56(%[in]),%%r13\n"
        "mov 64(%[in]),%%r14; mov 72(%[in]),%%r15; mov 80(%[in]),%%rbx; mov 88(%[in]),%%rbp\n"
        "movq $0x77,-40(%%rsp); movq $0x77,-136(%%rsp); mov 544(%%rsp),%%rax\n"
        "stc; call *536(%%rsp); mov %%rcx,%%rax\n"
        "mov 512(%%rsp),%%rcx; cmp 520(%%rsp),%%rax; jne 1f; test $1,%%r11b; jz 1f\n"
        "cmp 0(%%rcx),%%rdi; jne 1f; cmp 8(%%rcx),%%rsi; jne 1f; cmp 16(%%rcx),%%rdx; jne 1f\n"
        "cmp 24(%%rcx),%%r8; jne 1f; cmp 32(%%rcx),%%r9; jne 1f; cmp 40(%%rcx),%%r10; jne 1f\n"
        "cmp 48(%%rcx),%%r12; jne 1f; cmp 56(%%rcx),%%r13; jne 1f; cmp 64(%%rcx),%%r14; jne 1f\n"
        "cmp 72(%%rcx),%%r15; jne 1f; cmp 80(%%rcx),%%rbx; jne 1f; cmp 88(%%rcx),%%rbp; jne 1f\n"
        "cmpq $0x77,-40(%%rsp); jne 1f; cmpq $0x77,-136(%%rsp); jne 1f; xor %%eax,%%eax; jmp 2f\n"
        "1: mov $1,%%eax\n2: mov 528(%%rsp),%%rbp; mov 552(%%rsp),%%rbx; add $1024,%%rsp"
        : "+&a"(rax)
        : [in] "c"(in), [to] "r"(to), [ret] "d"(ret)
        : "rdi", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory");
    return (int)(bad + rax);
}

static void same_bytes(const char *what, const char *base, const char *file) {
    char copy[SIZE], truth[SIZE];
    struct iovec to = {copy, SIZE}, from = {(void *)base, SIZE};
    int fd = MUST(open(file, O_RDONLY));
    EXPECT(read(fd, truth, SIZE) == (ssize_t)SIZE);
    close(fd);
    EXPECT(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)SIZE);
    int same = !memcmp(copy, truth, SIZE);
    memset(copy, 0, SIZE);
    fd = MUST(open("/proc/self/mem", O_RDONLY));
    EXPECT(pread(fd, copy, SIZE, (off_t)base) == (ssize_t)SIZE);
    close(fd);
    same &= !memcmp(copy, truth, SIZE);
    EXPECT(same);
    say("%s: the bytes are those of the file: %d", what, same);
}

static void lines_of_maps(const char *what) {
    static char list[1 << 16];
    int fd = MUST(open("/proc/self/maps", O_RDONLY)), lines = 0;
    ssize_t n = 0, r;
    while ((r = read(fd, list + n, sizeof list - 1 - n)) > 0)
        n += r;
    list[n] = 0;
    close(fd);
    for (char *p = list; (p = strstr(p, "/text\n")); p++)
        lines++;
    say("%s: %d lines of the text in maps", what, lines);
}

// ---- jumps into the middle ----
static int middle(const char *base) {
    pid_t me = getpid();
    int bad = 0;
    for (int i = 0; i < 50; i++) {
        bad += jump(base + OFF(number_second), SYS_getpid, 0) != me;
        bad += jump(base + OFF(number_second), SYS_getuid, 1) != (long)getuid();
        bad += jump(base + OFF(number_second), -1, 1) != -ENOSYS;
        bad += jump(base + OFF(compare_second), 5, 0) != 5;
        bad += jump(base + OFF(compare_second), -EPERM, 1) != EPERM - 1000000;
        bad += call(base, SYS_close, -1, 0, 0, 0) != EBADF - 1000000;
    }
    return bad;
}
static void flags(const char *base) {
    static const long values[] = {
        0, 1, -1, -4095, -4096, -4097, 4095, 0x7fffffffffffffff, -0x7fffffffffffffff - 1, 16};
    for (size_t i = 0; i < COUNT(values); i++)
        say("flags behind the comparison with %zu: %lx", i,
            jump(base + OFF(flags_second), values[i], i & 1) & 0x8d5);
}

// ---- single steps ----
static volatile int steps;
static long step_at[64];
static void on_trap(int sig, siginfo_t *info, void *context) {
    long rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - (long)code;
    (void)sig;
    if (rip >= 0 && rip < (long)SIZE && steps < 64)
        step_at[steps++] = rip << 8 | (info->si_code & 0xff);
}
static void stepped(const char *what, size_t entry, long rax) {
    steps = 0;
    __asm__ volatile(
        "sub $128,%%rsp; pushfq; orq $0x100,(%%rsp); popfq; call *%[to]; pushfq; andq $~0x100,(%%rsp); "
        "popfq; add $128,%%rsp"
        : "+&a"(rax)
        : [to] "r"(code + entry)
        : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
    for (int i = 0; i < steps; i++)
        say("%s: step at %ld, code %ld", what, (step_at[i] >> 8) - (long)entry, step_at[i] & 0xff);
}

// ---- signals ----
static volatile int caught, elsewhere, ends[2];
static void on_signal(int sig, siginfo_t *info, void *context) {
    unsigned long rip = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)info;
    caught++;
    elsewhere += rip >= 0x6a0000000000 && rip < 0x6e0000000000;
    elsewhere += call_number(code) != getpid() || call(code, SYS_getpid, 0, 0, 0, 0) != getpid();
    if (sig == SIGUSR2 && write(ends[1], "x", 1) != 1)
        elsewhere++;
}
static void *send_later(void *arg) {
    usleep(30000);
    pthread_kill(*(pthread_t *)arg, caught < 0 ? SIGUSR2 : SIGUSR1);
    return NULL;
}
static void signals(void) {
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    struct itimerval fast = {{0, 700}, {0, 700}}, stop = {{0, 0}, {0, 0}};
    pthread_t self = pthread_self(), t;
    char c = 0;
    MUST(sigaction(SIGALRM, &sa, NULL));
    MUST(sigaction(SIGUSR1, &sa, NULL));
    sa.sa_flags |= SA_RESTART;
    MUST(sigaction(SIGUSR2, &sa, NULL));
    MUST(pipe((int *)ends));
    MUST(setitimer(ITIMER_REAL, &fast, NULL));
    int bad = often(code, getpid(), getpid()) + often(code, getpid(), getpid());
    for (int i = 0; i < 20; i++)
        bad += middle(code);
    MUST(setitimer(ITIMER_REAL, &stop, NULL));
    EXPECT(bad == 0);
    caught = 0; // a call that blocks is interrupted behind its SYSCALL
    EXPECT(pthread_create(&t, NULL, send_later, &self) == 0);
    say("interrupted: %ld", call(code, SYS_read, ends[0], (long)&c, 1, 0) + 1000000);
    pthread_join(t, NULL);
    caught = -1; // and restarted
    EXPECT(pthread_create(&t, NULL, send_later, &self) == 0);
    long n = call(code, SYS_read, ends[0], (long)&c, 1, 0);
    say("restarted: %ld %c", n, c);
    pthread_join(t, NULL);
    EXPECT(elsewhere == 0);
}

// ---- threads ----
static volatile int over;
static void *caller(void *arg) {
    long bad = 0, tid = syscall(SYS_gettid), me = getpid();
    (void)arg;
    while (!over) {
        bad += call_number(code) != me;
        bad += call(code, SYS_gettid, 0, 0, 0, 0) != tid;
    }
    return (void *)bad;
}
static void threads(void) {
    pthread_t t[3];
    void *bad;
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&t[i], NULL, caller, NULL) == 0);
    for (int i = 0; i < 25; i++) {
        usleep(3000);
        MUST(mprotect(code, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC));
        usleep(300);
        MUST(mprotect(code, SIZE, PROT_READ | PROT_EXEC));
        if (i % 5 == 0) {
            pid_t child = fork();
            if (child == 0)
                _exit(call_number(code) != getpid() || often(code, getpid(), getpid()));
            int status;
            EXPECT(waitpid(child, &status, 0) == child && status == 0);
        }
    }
    over = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &bad);
        EXPECT(bad == NULL);
    }
}

// ---- changes of the text ----
static void changes(void) {
    int nr = SYS_getuid, old = SYS_getpid;
    pid_t me = getpid();
    long uid = 1234; // of no process of the test
    MUST(syscall(SYS_setresuid, uid, -1, -1));
    EXPECT(often(code, me, me) == 0);
    MUST(mprotect(code, SIZE, PROT_READ | PROT_WRITE));
    EXPECT(code[OFF(number)] == (char)0xb8 && code[OFF(compare_call)] == 0x0f);
    memcpy(code + OFF(number) + 1, &nr, 4);
    MUST(mprotect(code, SIZE, PROT_READ | PROT_EXEC));
    EXPECT(often(code, uid, me) == 0);
    MUST(mprotect(code, SIZE, PROT_NONE));
    MUST(mprotect(code, SIZE, PROT_READ | PROT_EXEC));
    EXPECT(often(code, uid, me) == 0);
    MUST(madvise(code, SIZE, MADV_DONTNEED)); // what was written is gone
    EXPECT(often(code, me, me) == 0);
    char *at = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = mremap(code, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    EXPECT(moved == at && often(moved, me, me) == 0);
    same_bytes("moved", moved, name);
    CATCH(call_number(code););
    write_text("other", SYS_getuid, -4096);
    EXPECT(map("other", code, PROT_READ | PROT_EXEC, MAP_FIXED_NOREPLACE) == code);
    EXPECT(often(code, uid, me) == 0);
    EXPECT(map(name, code, PROT_READ | PROT_EXEC, MAP_FIXED) == code); // over it
    EXPECT(often(code, me, me) == 0);
    write_text("third", SYS_getuid, 0);
    EXPECT(map("third", code, PROT_READ | PROT_EXEC, MAP_FIXED) == code); // a call that is not completed
    EXPECT(call(code, SYS_getppid, 0, 0, 0, 0) == -1000000 - getppid() && call_number(code) == uid);
    MUST(munmap(code, SIZE));
    EXPECT(map("other", code, PROT_READ | PROT_EXEC, MAP_FIXED) == code);
    EXPECT(often(code, uid, me) == 0);
    MUST(mprotect(code, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC));
    memcpy(code + OFF(number) + 1, &old, 4);
    EXPECT(often(code, me, me) == 0);
    EXPECT(call(moved, SYS_getuid, 0, 0, 0, 0) == uid);
    MUST(syscall(SYS_setresuid, 0, -1, -1));
}

// Memory that a program may write or share keeps its bytes.
static void others(void) {
    struct {
        const char *what;
        int prot, flags;
    } forms[] = {
        {"writable", PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE},
        {"anonymous", PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS},
        {"shared", PROT_READ | PROT_EXEC, MAP_SHARED},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        int fd = MUST(open(name, O_RDWR));
        char *p = mmap(NULL, SIZE, forms[i].flags & MAP_ANONYMOUS ? PROT_READ | PROT_WRITE : forms[i].prot,
                       forms[i].flags, forms[i].flags & MAP_ANONYMOUS ? -1 : fd, 0);
        close(fd);
        EXPECT(p != MAP_FAILED);
        if (forms[i].flags & MAP_ANONYMOUS) {
            memcpy(p, text, OFF(text_end));
            MUST(mprotect(p, SIZE, forms[i].prot));
        }
        EXPECT(often(p, getpid(), getpid()) == 0);
        int same = !memcmp(p, text, OFF(text_end));
        EXPECT(same);
        say("%s memory has its bytes: %d", forms[i].what, same);
        MUST(munmap(p, SIZE));
    }
}

// Memory below 2 GiB, which nothing uses, is the program's like any other.
static void low_memory(void) {
    char *p = (char *)0x7fff0000;
    EXPECT(often(code, getpid(), getpid()) == 0);
    CATCH(say("read %d", *(volatile char *)(p + 0x8000)));
    say("%s", signal_name(fault.sig));
    EXPECT(mmap(p, 0x10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                0) == p);
    int bad = 0;
    for (int i = 0; i < 0x10000; i++)
        bad += p[i] != 0;
    memset(p, 0x55, 0x10000);
    EXPECT(bad == 0 && often(code, getpid(), getpid()) == 0);
    MUST(munmap(p, 0x10000));
    EXPECT(often(code, getpid(), getpid()) == 0);
}

static int in_vfork(void) {
    pid_t child = vfork();
    if (child == 0)
        _exit(call(code, SYS_getpid, 0, 0, 0, 0) == getppid() ||
              call_number(code) != call(code, SYS_gettid, 0, 0, 0, 0));
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    write_text(name, SYS_getpid, -4096);
    code = map(name, NULL, PROT_READ | PROT_EXEC, 0);
    EXPECT(code != MAP_FAILED);
    pid_t me = getpid();
    EXPECT(often(code, me, me) == 0);
    same_bytes("hot", code, name);
    lines_of_maps("hot");
    if (argc > 1) // after the execve below
        return wrong;
    EXPECT(registers(code + OFF(number), 7, code + OFF(number_end)) == 0);
    EXPECT(registers(code + OFF(flags_call), SYS_getpid, code + OFF(flags_second)) == 0);
    EXPECT(middle(code) == 0);
    flags(code);
    EXPECT(in_vfork());
    MUST(sigaction(SIGTRAP, &trap, NULL));
    stepped("number", OFF(number), 0);
    stepped("comparison", OFF(flags_call), SYS_getpid);
    stepped("second of number", OFF(number_second), SYS_getpid);
    stepped("second of comparison", OFF(flags_second), 3);
    signals();
    threads();
    changes();
    others();
    low_memory();
    pid_t child;
    char *args[] = {argv[0], "again", NULL};
    int status, spawned = posix_spawn(&child, "/proc/self/exe", NULL, NULL, args, environ);
    EXPECT(spawned == 0 && waitpid(child, &status, 0) == child && status == 0);
    return wrong;
}
