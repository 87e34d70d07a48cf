// Relatives (CLONE_VM without CLONE_THREAD) are killed at random moments, or leave by exit and execve, beside living ones.
// The monitor must give back what the dead ones had, and never what a living one has: a living relative whose vCPU
// another task gets would lose its registers. Afterwards the parent makes as many threads and opens as many
// files as before.
#include "attack.h"
#include <pthread.h>

#define STACK (32UL << 10)
#define LIVING 3
#define DYING 6
#define SLOTS (LIVING + DYING)
#define LEFT 250 // relatives that leave: many more than a VM has vCPUs with this few descriptors
#define THREADS 60

static char *stack[SLOTS];
static volatile long beats[LIVING];
static volatile int broken[LIVING], stop;
static char *self;

static void __attribute__((noreturn)) leave(int code) {
    for (;;)
        attack_bare(SYS_exit_group, code, 0, 0, 0, 0, 0);
}

// A living relative: its registers are its own over calls, computing and faults.
static int alive(void *argument) {
    long i = (long)argument;
    const uint64_t first = 0x1111 * (uint64_t)(i + 1), second = 0x2222 * (uint64_t)(i + 1);
    register uint64_t a __asm__("r12") = first, b __asm__("r13") = second;
    pid_t pid = (pid_t)attack_bare(SYS_getpid, 0, 0, 0, 0, 0, 0);
    while (!stop) {
        for (int n = 0; n < 1000; n++)
            __asm__ volatile("" : "+r"(a), "+r"(b));
        if (attack_bare(SYS_getpid, 0, 0, 0, 0, 0, 0) != pid)
            broken[i] = 1;
        if (a != first || b != second)
            broken[i] = 2;
        long p = attack_bare(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p > 0) {
            *(volatile long *)p = i;
            if (*(volatile long *)p != i)
                broken[i] = 3;
            attack_bare(SYS_munmap, p, 4096, 0, 0, 0, 0);
        }
        beats[i]++;
    }
    leave(0);
}

static int dying(void *argument) {
    long kind = (long)argument;
    char *const argv[] = {self, "child", NULL}, *const envp[] = {NULL};
    static uint32_t word;
    for (long n = 0;; n++) {
        long p;
        switch (kind % 8) {
        case 0:
            p = attack_bare(SYS_mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            attack_bare(SYS_munmap, p, 8192, 0, 0, 0, 0);
            break;
        case 1: // through a slot, where the table is shared
            p = attack_bare(SYS_openat, AT_FDCWD, (long)"/proc/self/exe", O_RDONLY, 0, 0, 0);
            attack_bare(SYS_close, p, 0, 0, 0, 0, 0);
            break;
        case 2: // in the kernel
            attack_bare(SYS_pause, 0, 0, 0, 0, 0, 0);
            break;
        case 3:
            attack_bare(SYS_execve, (long)self, (long)argv, (long)envp, 0, 0, 0);
            break;
        case 4: // in the guest
            for (;;)
                __asm__ volatile("pause");
        case 5:
            leave(0);
        case 6: // another word for set_tid_address
            attack_bare(SYS_set_tid_address, (long)&word, 0, 0, 0, 0, 0);
            break;
        default: // an image that is none: the execve fails
            attack_bare(SYS_execve, (long)"/", (long)argv, (long)envp, 0, 0, 0);
        }
    }
}

static const int kinds[] = {CLONE_VM | SIGCHLD, CLONE_VM | CLONE_FILES | SIGCHLD,
                            CLONE_VM | CLONE_FILES | CLONE_FS | SIGCHLD};

struct waiting {
    long kind;
    char *stack;
};

// A thread waits for a vfork child; the main thread kills it.
static volatile pid_t lent;
static int vforked(void *kind) {
    lent = (pid_t)attack_bare(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return dying(kind);
}

static void *lender(void *argument) {
    struct waiting *w = argument;
    pid_t pid = clone(vforked, w->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)w->kind);
    if (pid > 0)
        waitpid(pid, NULL, __WALL);
    return NULL;
}

static void one_vfork(long kind, char *at) {
    struct waiting w = {kind, at};
    pthread_t thread;
    lent = 0;
    if (pthread_create(&thread, NULL, lender, &w) != 0)
        attack_won("no thread for a vfork: %s", strerror(errno));
    for (int i = 0; i < 100000 && !lent; i++)
        sched_yield();
    usleep((useconds_t)(rand() % 300));
    if (lent)
        kill(lent, SIGKILL);
    pthread_join(thread, NULL);
}

static void look(void) {
    for (int i = 0; i < LIVING; i++)
        if (broken[i])
            attack_won("a living relative has lost its state: %d", broken[i]);
}

static void wave(unsigned round) {
    pid_t pid[DYING];
    for (unsigned i = 0; i < DYING; i++) {
        pid[i] = clone(dying, stack[LIVING + i] + STACK, kinds[(round + i) % 3], (void *)(long)rand());
        if (pid[i] < 0)
            attack_won("the parent can make no process any more, after %u waves: %s", round, strerror(errno));
        if (rand() % 4 == 0)
            kill(pid[i], SIGKILL); // before it has begun
    }
    usleep((useconds_t)(rand() % 1000));
    for (unsigned i = 0; i < DYING; i++)
        kill(pid[i], SIGKILL);
    for (unsigned i = 0; i < DYING; i++)
        while (waitpid(pid[i], NULL, __WALL) < 0 && errno == EINTR)
            ;
}

static void *sleeper(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

static int threads(int most) {
    static pthread_t thread[THREADS];
    static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    int n = 0;
    pthread_mutex_lock(&gate);
    while (n < most && pthread_create(&thread[n], &small, sleeper, &gate) == 0)
        n++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    return n;
}

// The same through slots: each open of a magic link takes one while it lasts. A relative that is killed between its open and
// its close leaves a descriptor in the table, as on Linux.
static int files(void) {
    int n = 0;
    close_range(3, ~0U, 0);
    for (int i = 0; i < 64; i++) {
        int fd = open("/proc/self/fd/0", O_RDONLY | O_PATH);
        n += fd >= 0;
        close(fd);
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        for (;;)
            pause();
    self = argv[0];
    srand((unsigned)getpid() ^ (unsigned)time(NULL));
    for (int i = 0; i < SLOTS; i++)
        stack[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int most = threads(THREADS), had = files();
    pid_t pid[LIVING];
    for (long i = 0; i < LIVING; i++)
        if ((pid[i] = clone(alive, stack[i] + STACK, kinds[i], (void *)i)) < 0)
            attack_broken("clone");
    unsigned round = 0, left = 0;
    while (!attack_over() || left < LEFT) {
        wave(round++);
        one_vfork(rand(), stack[LIVING]);
        left += DYING + 1;
        look();
        if (round % 16 == 0 && files() != had)
            attack_won("the parent can open less than before");
    }
    for (int i = 0; i < LIVING; i++) {
        long was = beats[i];
        for (int n = 0; n < 5000 && beats[i] == was; n++)
            usleep(1000);
        if (beats[i] == was)
            attack_won("a living relative does not run any more");
    }
    stop = 1;
    for (int i = 0; i < LIVING; i++)
        waitpid(pid[i], NULL, __WALL);
    look();
    int now = threads(most);
    if (now < most)
        attack_won("the parent makes %d threads, before %d", now, most);
    printf("%u relatives have left\n", left);
    fflush(stdout);
    attack_lost();
}
