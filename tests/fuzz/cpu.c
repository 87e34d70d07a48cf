// The processor: jumps, instructions, stack pointers, signal frames.
#include "fuzz.h"
#include <sys/ucontext.h>
#include <ucontext.h>

void cpu(void) {
    if (sigsetjmp(back, 0))
        return;
    may_jump = 1;
    u64 to = below(3) ? border() + below(4096) : 0x6c0000000000 + below(0x2200000);
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

void handler(int sig, siginfo_t *si, void *context) {
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
