// A fault whose signal is blocked or ignored kills anyway: signal(7).
#include "guest.h"
static void h(int s) { say("must not run"); }
int main(int argc, char **argv) {
    sigset_t m;
    sigemptyset(&m), sigaddset(&m, SIGSEGV), sigaddset(&m, SIGILL);
    reap("blocked", CHILD({
             on(SIGSEGV, h, 0);
             sigprocmask(SIG_BLOCK, &m, NULL);
             *(volatile int *)4 = 1;
         }));
    reap("ignored", CHILD({
             signal(SIGSEGV, SIG_IGN);
             *(volatile int *)4 = 1;
         }));
    reap("ignored but sent", CHILD({
             signal(SIGSEGV, SIG_IGN);
             raise(SIGSEGV);
         }));
    reap("blocked SIGILL", CHILD({
             on(SIGILL, h, 0), sigprocmask(SIG_BLOCK, &m, NULL);
             __asm__ volatile("ud2");
         }));
    reap("bad stack", CHILD({ // no room for the frame
             on(SIGUSR1, h, 0);
             __asm__ volatile(
                 "mov $62,%%eax; mov %0,%%edi; mov $10,%%esi; mov $64,%%rsp; syscall; ud2" ::"r"(getpid())
                 : "rax", "rdi", "rsi");
         }));
    return 0;
}
