// Jumps to every byte of the page behind which SYSCALL goes in the guest, its own and another vCPU's, to where patched sites go, and
// into their trampolines, with hostile registers, with
// flags that a call must not keep (TF, AC, DF, NT), by a jump and by a signal frame: no ring but 3, no number but the kernel's,
// no end of the monitor.
#include "attack.h"
#include <setjmp.h>
#include <sys/time.h>
#include <ucontext.h>

#define AREA 0x6c0000100000UL // of the first vCPU; the page is its first
#define AREA_SIZE 0x8000UL
#define BYTES 4096U
#define OWN 0x6c8000000000UL // what each vCPU has at the same address
#define SITES 0x6c8000010000UL
#define CHUNK 16U // bytes that a child tries

static sigjmp_buf back;
static volatile int jumping;
static unsigned long x = 88172645463325252UL;
static struct shared { unsigned landed, caught, ended; } * s;

static unsigned long next(void) { return x ^= x << 13, x ^= x >> 7, x ^= x << 17; }

static unsigned ring(void) {
    unsigned cs;
    __asm__ volatile("mov %%cs,%0" : "=r"(cs));
    return cs & 3;
}

static void caught(int sig, siginfo_t *info, void *context) {
    unsigned cs = (unsigned)((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] & 0xffff;
    (void)info;
    __asm__ volatile("sub $128,%%rsp; pushq $0x202; popf; add $128,%%rsp"
                     :
                     :
                     : "cc", "memory"); // AC stays in a handler
    if ((cs & 3) != 3 || ring() != 3)
        attack_won("signal %d with cs %#x", sig, cs);
    if (!jumping)
        return;
    s->caught++;
    siglongjmp(back, 1);
}

// rdi: address, rsi: registers (rax rcx rdx rbx rbp r8 to r15), rdx: flags; rsp stays valid, or becomes registers[13].
void hostile_jump(unsigned long to, const unsigned long registers[15], unsigned long flags);
__asm__("hostile_jump:\n"
        "mov %rdi,-256(%rsp); mov %rdx,-512(%rsp)\n"
        "mov 0(%rsi),%rax; mov 8(%rsi),%rcx; mov 24(%rsi),%rbx; mov 32(%rsi),%rbp\n"
        "mov 40(%rsi),%r8; mov 48(%rsi),%r9; mov 56(%rsi),%r10; mov 64(%rsi),%r11; mov 72(%rsi),%r12\n"
        "mov 80(%rsi),%r13; mov 88(%rsi),%r14; mov 96(%rsi),%r15\n"
        "mov 16(%rsi),%rdx; mov 112(%rsi),%rdi; mov 104(%rsi),%rsi\n"
        "sub $512,%rsp; popf\n"
        "jmp *248(%rsp)\n"
        ".globl landing; landing:\n"
        "pushq $0x202; popf\n");
void landing(void);
// The landing has lost all registers: it goes back by siglongjmp.
__asm__("cld; and $-16,%rsp; call landed_here\n");
__attribute__((noreturn, used)) void landed_here(void) {
    if (ring() != 3)
        attack_won("a jump came back in ring %u", ring());
    s->landed++;
    siglongjmp(back, 1);
}

static unsigned long hostile(void) {
    static const unsigned long words[] = {0,
                                          1,
                                          8,
                                          13,
                                          39,
                                          102,
                                          512,
                                          ~0UL,
                                          1UL << 63,
                                          0x800000000000UL,
                                          0x7fffffffffffUL,
                                          AREA,
                                          AREA + 0x1000,
                                          AREA + 0x5000,
                                          0x6c0000000000UL,
                                          0x6c0000001000UL,
                                          0x6c00000020e0UL,
                                          0x69ffffffffe0UL,
                                          0x6a0000000000UL,
                                          0x6e0000000000UL,
                                          0x40302,
                                          0x202};
    unsigned long n = next();
    return n >> 60 == 0 ? n : words[n % (sizeof words / sizeof words[0])];
}

static void once(unsigned long to, unsigned how) {
    static const unsigned long flags[] = {0x202, 0x302, 0x40202, 0x602, 0x4202};
    // Calls that neither end the process nor wait.
    static const unsigned long calls[] = {39,  13, 186, 102, 104, 107, 108, 110, 13, 13, 0xffffffff00000027UL,
                                          ~0UL};
    unsigned long r[15];
    for (unsigned i = 0; i < 15; i++)
        r[i] = hostile();
    r[0] = calls[next() % (sizeof calls / sizeof calls[0])];
    if (how & 1)
        r[1] = (unsigned long)landing;
    if (how & 2)
        r[7] = flags[next() % 5];
    unsigned long f = flags[next() % 5];
    if (sigsetjmp(back, 1)) {
        jumping = 0;
        return;
    }
    jumping = 1;
    if (how & 4) { // by a frame
        ucontext_t u;
        getcontext(&u);
        greg_t *g = u.uc_mcontext.gregs;
        static const int places[15] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RBP, REG_R8,  REG_R9, REG_R10,
                                       REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RSI, REG_RDI};
        for (int i = 0; i < 15; i++)
            g[places[i]] = (greg_t)r[i];
        g[REG_RSP] = how & 8 ? (greg_t)hostile() : g[REG_RSP] - 4096;
        g[REG_RIP] = (greg_t)to;
        g[REG_EFL] = (greg_t)f;
        u.uc_flags = 0;
        u.uc_mcontext.fpregs = NULL;
        // rt_sigreturn(2) takes the frame from the stack: siginfo behind it does not matter.
        __asm__ volatile("mov %0,%%rsp; mov $15,%%eax; syscall" : : "r"(&u) : "memory");
    }
    hostile_jump(to, r, f);
}

static void chunk(void *argument) {
    static char stack[65536];
    unsigned long at = (unsigned long)argument;
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    struct itimerval often = {{0, 30000}, {0, 30000}};
    long pid = getpid();
    x += at * 0x9e3779b97f4a7c15UL;
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGALRM, SIGSYS};
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned n = 0; n < CHUNK; n++)
        for (unsigned how = 0; how < 16; how++) {
            for (unsigned i = 0; i < 7; i++)
                sigaction(signals[i], &a, NULL);
            sigaltstack(&alternate, NULL);
            once(at + n, how);
            if (syscall(SYS_getppid) != 0 && syscall(SYS_getpid) != pid)
                attack_won("getpid is wrong after a jump to %#lx", at + n);
        }
    s->ended++;
}

int main(void) {
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        attack_broken("mmap");
    unsigned tried = 0;
    for (int i = 0; i < 4000; i++)
        if (syscall(SYS_getpid) != getpid()) // two sites that are patched
            attack_won("getpid is wrong");
    for (unsigned n = 0; !attack_over(); n++) {
        // The code is at the start of the page: more often than the rest.
        unsigned offset = n % 4 < 3 ? n / 4 * 3 * CHUNK + n % 4 * CHUNK : n * CHUNK;
        offset %= n % 4 < 3 ? 768 : BYTES;
        unsigned long at = AREA + (n % 5 == 4 ? AREA_SIZE : 0) + offset;
        if (n % 3 == 1)
            at = n % 2 ? OWN + offset : SITES + n * CHUNK % 512;
        int status = attack_child(chunk, (void *)at);
        tried++;
        if (attack_child_won(status))
            _exit(ATTACK_WON);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
            attack_won("a monitor ended: jumps from %#lx on", at);
    }
    dprintf(1, "%u children, %u to the end, %u jumps came back, %u signals\n", tried, s->ended, s->landed,
            s->caught);
    attack_lost();
}
