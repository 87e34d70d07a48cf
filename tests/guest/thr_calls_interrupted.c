// Calls that only return a number are right while signals, siblings, forks and unmapped memory come between:
// signal(7). krun: timeout=60
#include "guest.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
static volatile int over, caught;
static pid_t me;
static void on_signal(int sig, siginfo_t *info, void *ctx) {
    unsigned long rip = (unsigned long)((ucontext_t *)ctx)->uc_mcontext.gregs[REG_RIP];
    (void)sig, (void)info;
    caught++;
    if (rip >= 0x6a0000000000 && rip < 0x6e0000000000) // between the window and the host's own addresses
        over = 2;
    if (syscall(SYS_getpid) != me)
        over = 2;
}
// getpid, with registers and flags that must all be kept; ok: they were
static int call_once(unsigned long seed) {
    unsigned long in[6] = {seed * 3, seed * 5, seed * 7, seed * 11, seed * 13, seed * 17}, bad = 0, flags,
                  rax = 39;
    __asm__ volatile("mov 0(%[in]),%%rdi; mov 8(%[in]),%%rsi; mov 16(%[in]),%%rdx; mov 24(%[in]),%%r8\n"
                     "mov 32(%[in]),%%r9; mov 40(%[in]),%%r10; mov %[in],%%r12; lea 1f(%%rip),%%r13\n"
                     "sub $256,%%rsp; movq $0x1234,-8(%%rsp); movq $0x1234,-128(%%rsp)\n"
                     "stc; syscall; 1: jnc 2f\n"
                     "cmp %%rcx,%%r13; jne 2f; test $1,%%r11b; jz 2f\n"
                     "cmp 0(%%r12),%%rdi; jne 2f; cmp 8(%%r12),%%rsi; jne 2f; cmp 16(%%r12),%%rdx; jne 2f\n"
                     "cmp 24(%%r12),%%r8; jne 2f; cmp 32(%%r12),%%r9; jne 2f; cmp 40(%%r12),%%r10; jne 2f\n"
                     "cmpq $0x1234,-8(%%rsp); jne 2f; cmpq $0x1234,-128(%%rsp); je 3f\n"
                     "2: inc %[bad]\n3: add $256,%%rsp"
                     : [bad] "+&b"(bad), "+&a"(rax), "=&c"(flags)
                     : [in] "r"(in)
                     : "rdi", "rsi", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "cc", "memory");
    return !bad && (pid_t)rax == me;
}
static void *caller(void *arg) {
    unsigned long n = 0, wrong_calls = 0;
    long tid = syscall(SYS_gettid);
    while (!over) {
        wrong_calls += !call_once(++n);
        wrong_calls += syscall(SYS_gettid) != tid;
    }
    return (void *)wrong_calls;
}
int main(int argc, char **argv) {
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t t[2];
    me = getpid();
    MUST(sigaction(SIGUSR1, &sa, NULL));
    MUST(sigaction(SIGALRM, &sa, NULL));
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&t[i], NULL, caller, NULL) == 0);
    for (int i = 0; i < 400 && !over; i++) {
        pthread_kill(t[i & 1], SIGUSR1);
        if (i % 40 == 0) {
            pid_t child = fork();
            if (child == 0) {
                me = getpid();
                _exit(!(call_once(5) && me == syscall(SYS_getpid) && me == syscall(SYS_gettid)));
            }
            int status = 1;
            waitpid(child, &status, 0);
            if (status)
                over = 2;
        }
        if (i % 16 == 0) {
            char *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            p[5] = 1;
            munmap(p, 1 << 16);
        }
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    EXPECT(over == 0);
    over = 1;
    for (int i = 0; i < 2; i++) {
        void *wrong_calls;
        pthread_join(t[i], &wrong_calls);
        EXPECT(wrong_calls == NULL);
    }
    EXPECT(caught > 0);
    return wrong;
}
