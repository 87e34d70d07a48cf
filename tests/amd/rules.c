// The two rules that hardware virtualisation makes dangerous, from the payload's side:
//   ring 3: whatever a call, a signal, a new thread or process did, the payload goes on in ring 3;
//   forged exits: no instruction of the payload is taken for an exit of the monitor's stubs.
// Prints one line per case, the same natively and in a VM; cases where both may differ say "contained".
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static unsigned ring(void) {
    uint16_t cs;
    __asm__ volatile("mov %%cs, %0" : "=r"(cs));
    return cs & 3;
}

static void expect_ring_3(const char *after) {
    uint16_t cs, ss;
    __asm__ volatile("mov %%cs, %0; mov %%ss, %1" : "=r"(cs), "=r"(ss));
    printf("after %s: ring %u, ss ring %u\n", after, cs & 3, ss & 3);
    fflush(stdout);
}

// Run `what` in a child; how it ended.
static int outcome(void (*what)(uint64_t), uint64_t argument) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        what(argument);
        _exit(ring() == 3 ? 0 : 99);
    }
    int status;
    waitpid(pid, &status, 0);
    return status;
}

static void report(const char *name, uint64_t number, int status) {
    printf("%s", name);
    if (number)
        printf(" %#lx", (unsigned long)number);
    if (WIFSIGNALED(status))
        printf(": %s\n", WTERMSIG(status) == SIGILL    ? "SIGSEGV or SIGILL"
                         : WTERMSIG(status) == SIGSEGV ? "SIGSEGV or SIGILL"
                                                       : strsignal(WTERMSIG(status)));
    else
        printf(": status %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

#define INSTRUCTION(name, text)                                                                              \
    static void name(uint64_t unused) {                                                                      \
        (void)unused;                                                                                        \
        __asm__ volatile(text : : : "rax", "rbx", "rcx", "rdx", "memory");                                   \
    }
INSTRUCTION(do_cli, "cli")
INSTRUCTION(do_sti, "sti")
INSTRUCTION(do_hlt, "hlt")
INSTRUCTION(do_read_cr0, "mov %%cr0, %%rax")
INSTRUCTION(do_read_cr3, "mov %%cr3, %%rax")
INSTRUCTION(do_write_cr3, "xor %%eax, %%eax; mov %%rax, %%cr3")
INSTRUCTION(do_write_cr4, "xor %%eax, %%eax; mov %%rax, %%cr4")
INSTRUCTION(do_read_dr7, "mov %%dr7, %%rax")
INSTRUCTION(do_rdmsr, "mov $0xc0000082, %%ecx; rdmsr")
INSTRUCTION(do_wrmsr, "mov $0xc0000082, %%ecx; xor %%eax, %%eax; xor %%edx, %%edx; wrmsr")
INSTRUCTION(do_lgdt, "sub $64, %%rsp; lgdt (%%rsp); add $64, %%rsp")
INSTRUCTION(do_lidt, "sub $64, %%rsp; lidt (%%rsp); add $64, %%rsp")
INSTRUCTION(do_ltr, "mov $0x40, %%eax; ltr %%ax")
INSTRUCTION(do_invlpg, "invlpg (%%rsp)")
INSTRUCTION(do_wbinvd, "wbinvd")
INSTRUCTION(do_clts, "clts")
INSTRUCTION(do_swapgs, "swapgs")
INSTRUCTION(do_sysret, "mov $0, %%ecx; sysretq")
INSTRUCTION(do_xsetbv, "xor %%ecx, %%ecx; xor %%edx, %%edx; mov $1, %%eax; xsetbv")
INSTRUCTION(do_kernel_cs, "pushq $0x10; lea 1f(%%rip), %%rax; push %%rax; lretq; 1:")
INSTRUCTION(do_iret_ring_0,
            "mov %%rsp, %%rbx; pushq $0x18; push %%rbx; pushfq; pushq $0x10; lea 1f(%%rip), %%rax;"
            "push %%rax; iretq; 1:")

static const struct {
    const char *name;
    void (*run)(uint64_t);
} instructions[] = {
    {"cli", do_cli},
    {"sti", do_sti},
    {"hlt", do_hlt},
    {"read cr0", do_read_cr0},
    {"read cr3", do_read_cr3},
    {"write cr3", do_write_cr3},
    {"write cr4", do_write_cr4},
    {"read dr7", do_read_dr7},
    {"rdmsr LSTAR", do_rdmsr},
    {"wrmsr LSTAR", do_wrmsr},
    {"lgdt", do_lgdt},
    {"lidt", do_lidt},
    {"ltr", do_ltr},
    {"invlpg", do_invlpg},
    {"wbinvd", do_wbinvd},
    {"clts", do_clts},
    {"swapgs", do_swapgs},
    {"sysret", do_sysret},
    {"xsetbv", do_xsetbv},
    {"far return to kernel cs", do_kernel_cs},
    {"iret to ring 0", do_iret_ring_0},
};

// The register image of a system call, so that a forged exit would look like getppid and go on behind the
// OUT.
static void do_out(uint64_t port) {
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov $0x202, %%r11d; mov $110, %%eax; out %%al, %%dx; 1:"
                     :
                     : "d"(port)
                     : "rax", "rcx", "r11", "memory");
}
static void do_out_imm(uint64_t unused) {
    (void)unused;
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov $0x202, %%r11d; mov $110, %%eax; out %%al, $0x7e; 1:"
                     :
                     :
                     : "rax", "rcx", "r11", "memory");
}
static void do_out_32(uint64_t unused) {
    (void)unused;
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov $0x202, %%r11d; mov $110, %%eax; out %%eax, $0x7e; 1:"
                     :
                     :
                     : "rax", "rcx", "r11", "memory");
}
static void do_in(uint64_t port) { __asm__ volatile("in %%dx, %%al" : : "d"(port) : "rax"); }
static void do_outs(uint64_t port) {
    static char data[16];
    __asm__ volatile("outsb" : : "d"(port), "S"(data) : "memory");
}

// IOPL cannot be had: popf leaves it, sigreturn leaves it.
static void do_popf_out(uint64_t port) {
    __asm__ volatile("pushfq; orq $0x3000, (%%rsp); popfq" : : : "memory", "cc");
    do_out(port);
}

static void with_iopl(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x3000;
}

static void do_sigreturn_out(uint64_t port) {
    struct sigaction action = {.sa_sigaction = with_iopl, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    do_out(port);
}

static uint64_t forged_selectors;
static void with_selectors(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = (long long)forged_selectors;
}

static void do_sigreturn_selectors(uint64_t selectors) {
    struct sigaction action = {.sa_sigaction = with_selectors, .sa_flags = SA_SIGINFO};
    forged_selectors = selectors;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    // If the frame was taken, this would run in another ring.
    if (ring() != 3)
        _exit(99);
}

static void do_write(uint64_t address) { *(volatile uint8_t *)address = 1; }
static void do_system_read(uint64_t address) {
    // Never a payload address for a system call either.
    int fds[2];
    if (pipe(fds))
        _exit(98);
    if (write(fds[1], (void *)address, 1) > 0)
        _exit(99);
    kill(getpid(), SIGSEGV);
}
static void do_jump(uint64_t address) {
    __asm__ volatile("lea 1f(%%rip), %%rcx; mov $0x202, %%r11d; mov $110, %%eax; jmp *%%rbx; 1:"
                     :
                     : "b"(address)
                     : "rax", "rcx", "r11", "memory");
}

static void *thread(void *unused) {
    expect_ring_3("clone of a thread");
    return unused;
}

static volatile unsigned handler_ring;
static void handler(int signal) {
    (void)signal;
    handler_ring = ring();
}

int main(int argc, char **argv) {
    // QEMU's software emulation reads the stack of a far return in the wrong ring: the host's kernel would
    // die of it.
    int without_far = argc > 1 && !strcmp(argv[1], "without-far-returns");
    if (argc > 1 && !without_far) {
        expect_ring_3("execve");
        return 0;
    }
    // Ring 3.
    expect_ring_3("start");
    getppid();
    expect_ring_3("getppid");
    syscall(1000000);
    expect_ring_3("an unknown call");
    syscall(SYS_read, -1, 1, 1);
    expect_ring_3("a failing read");
    sched_yield();
    expect_ring_3("sched_yield");
    usleep(1000);
    expect_ring_3("a blocking call");
    munmap(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
    expect_ring_3("mmap and munmap");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        expect_ring_3("fork, in the child");
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    expect_ring_3("fork, in the parent");
    if (vfork() == 0) {
        execl("/proc/self/exe", "rules", "again", NULL);
        _exit(1);
    }
    wait(NULL);
    expect_ring_3("vfork and execve");
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("in a handler: ring %u\n", handler_ring);
    expect_ring_3("a handler");
    uint64_t flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    printf("iopl %lu\n", (unsigned long)(flags >> 12 & 3));

    // Privileged instructions.
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (!without_far || (instructions[i].run != do_kernel_cs && instructions[i].run != do_iret_ring_0))
            report(instructions[i].name, 0, outcome(instructions[i].run, 0));

    // Forged exits.
    static const uint64_t ports[] = {0x7e, 0x7d, 0x80, 0x3f8, 0x5658, 0xf4, 0xffff};
    report("out imm8", 0, outcome(do_out_imm, 0));
    report("out imm8, 32 bits", 0, outcome(do_out_32, 0));
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        report("out", ports[i], outcome(do_out, ports[i]));
        report("in", ports[i], outcome(do_in, ports[i]));
        report("outs", ports[i], outcome(do_outs, ports[i]));
        report("popf IOPL, out", ports[i], outcome(do_popf_out, ports[i]));
        report("sigreturn IOPL, out", ports[i], outcome(do_sigreturn_out, ports[i]));
    }
    static const uint64_t selectors[] = {0x0018000000000010, 0x002b000000000010, 0x0018000000000008,
                                         0x0000000000000040};
    int bad = 0;
    for (size_t i = 0; i < sizeof selectors / sizeof *selectors; i++) {
        // Linux ends the program; to ignore the selectors is as good.
        int status = outcome(do_sigreturn_selectors, selectors[i]);
        bad += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("sigreturn with forged selectors: %s\n", bad ? "NOT contained" : "contained");

    // The monitor's pages beside the payload's, if there are any: at the fixed addresses of machine/layout.h.
    for (uint64_t page = 0; page < 4; page++) {
        report("write", 0x6c0000000000 + page * 4096, outcome(do_write, 0x6c0000000000 + page * 4096));
        report("read by a call", 0x6c0000000000 + page * 4096,
               outcome(do_system_read, 0x6c0000000000 + page * 4096));
    }
    for (uint64_t page = 0; page < 16; page++)
        if (page % 8 != 1) // the call page may be written (docs/architecture.md)
            report("write", 0x6c0000100000 + page * 4096, outcome(do_write, 0x6c0000100000 + page * 4096));
    bad = 0;
    for (uint64_t vector = 0; vector < 32; vector++) {
        int status = outcome(do_jump, 0x6c0000002000 + vector * 16);
        bad += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    for (uint64_t at = 0; at < 16; at++) {
        int status = outcome(do_jump, 0x6c0000003000 + at);
        bad += WIFEXITED(status) && WEXITSTATUS(status) != 0;
        status = outcome(do_jump, 0x6c0000100000 + at);
        bad += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("jumps into the stubs: %s\n", bad ? "NOT contained" : "contained");
    expect_ring_3("all of it");
    return 0;
}
