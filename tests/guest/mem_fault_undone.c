// krun: timeout=60
// A page is taken away and given back by another thread while this one uses it, as garbage collectors do: the
// program's registers stay its own, and the other thread's calls that change the memory do not wait for this
// one: mprotect(2), ftruncate(2), sigaction(2).
#include "guest.h"
#define REGISTERS 8
static char *page, *other;
static int fd;
static volatile int done;
static void handler(int sig, siginfo_t *si, void *context) { // the instruction is executed again
    if ((char *)si->si_addr < page || (char *)si->si_addr >= page + PAGE)
        _exit(3);
}
static void *change(void *unused) {
    for (int i = 0; i < scaled(4000); i++) {
        if (i & 1) {
            MUST(mprotect(page, PAGE, PROT_NONE));
            MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
        } else {
            MUST(ftruncate(fd, 0));
            MUST(ftruncate(fd, PAGE));
        }
        if (i % 20 == 0)
            MUST(munmap(MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), PAGE));
    }
    done = 1;
    return NULL;
}
#define ALL(n)                                                                                               \
    "mov $" #n ", %%ebx\n mov $" #n ", %%edx\n mov $" #n ", %%r8d\n mov $" #n ", %%r9d\n"                    \
    "mov $" #n ", %%r12d\n mov $" #n ", %%r13d\n mov $" #n ", %%r14d\n mov $" #n ", %%r15d\n"
static void use(uint64_t out[REGISTERS]) {
    __asm__ volatile(ALL(1) "movl (%0), %%eax\n" ALL(
                         2) "movl (%1), %%eax\n"
                            "mov %%rbx, 0(%2)\n mov %%rdx, 8(%2)\n mov %%r8, 16(%2)\n mov %%r9, 24(%2)\n"
                            "mov %%r12, 32(%2)\n mov %%r13, 40(%2)\n mov %%r14, 48(%2)\n mov %%r15, 56(%2)\n"
                     :
                     : "S"(page), "D"(other), "c"(out)
                     : "rax", "rbx", "rdx", "r8", "r9", "r12", "r13", "r14", "r15", "memory");
}
int main(int argc, char **argv) {
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    uint64_t out[REGISTERS];
    int strange = 0;
    fd = MUST(memfd_create("short", 0));
    MUST(ftruncate(fd, PAGE));
    page = MUSTP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    other = pages(1);
    MUST(sigaction(SIGSEGV, &sa, NULL));
    MUST(sigaction(SIGBUS, &sa, NULL));
    pthread_t t = thread(change, NULL);
    while (!done) { // without a system call
        use(out);
        for (int i = 0; i < REGISTERS; i++)
            strange += out[i] != 2;
    }
    join(t);
    EXPECT(strange == 0);
    return wrong;
}
