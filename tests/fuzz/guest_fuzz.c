// A payload that is as hostile as it can be: random system calls with random and racing arguments, processes
// that share memory and descriptors, hostile programs, signal frames, jumps and privileged instructions.  Run
// it only inside the container that run.py makes.
//
//   guest_fuzz SEED SECONDS    the first process, pid 1
//   guest_fuzz walk SEED       what `krun exec` starts from outside: a child by itself
//   guest_fuzz probe ...       what is executed by others: looks whether it runs natively, and ends (entry.c)
//
// The first process only starts children and reaps them; each child lives at most two seconds and is expected
// to die in any way but some: exit status 127, the monitor's (children never use it themselves), and those of
// fuzz.h end the run with status 1.  A child that SIGKILL does not take away is a hang: status 2.  Equal
// seeds make equal children as far as threads allow.
#include "fuzz.h"
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

struct run run;
__thread u64 state;
__thread sigjmp_buf back;
__thread volatile int may_jump;
unsigned char *arena, *stage;

u64 rnd(void) { // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1DUL;
}

u64 raw(u64 nr, const u64 a[6]) {
    u64 r;
    register u64 r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

_Noreturn void quit(int status) {
    for (;;)
        RAW(SYS_exit_group, (u64)status);
}

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int alarming(int status) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return (code >= SAW_NATIVE && code <= SAW_HOST) || code == SAW_FATAL ? code : 0;
}

void reap(u64 milliseconds) {
    double end = now() + (double)milliseconds / 1000;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) >= 0) {
        if (pid > 0 && alarming(status))
            quit(alarming(status));
        if (pid == 0 && now() > end)
            break; // the first process takes it away in the end
        if (pid == 0)
            usleep(500);
    }
}

// ---- the walk

static void strike(void) {
    RAW(SYS_tgkill, (u64)getpid(), below(2) ? (u64)gettid() : process(), 1 + below(64));
}

static const struct {
    void (*step)(void);
    unsigned weight;
} families[] = {
    {random_call, 64}, {shaped_call, 40}, {memory, 8}, {cpu, 8},      {strike, 2}, {edges, 8},
    {shared_ids, 5},   {relatives, 2},    {execs, 1},  {programs, 1}, {links, 16}, {limits, 1},
    {cores, 1},        {inspect, 2},      {peek, 3},   {escape, 3},
};

static void (*pick(void))(void) {
    static u64 sum;
    if (!sum)
        for (u64 i = 0; i < COUNT(families); i++)
            sum += families[i].weight;
    u64 at = below(sum), i = 0;
    while (at >= families[i].weight)
        at -= families[i++].weight;
    return families[i].step;
}

void rounds(u64 n) {
    static __thread char stack[65536];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&ss, NULL);
    for (volatile u64 i = 0; i < n; i++) {
        sigsetjmp(back, 0); // faults of the fuzzer itself end here
        may_jump = 1;
        pick()();
    }
    may_jump = 0;
}

static void *body(void *arg) {
    state = (u64)arg | 1;
    rounds(~0UL);
    return NULL;
}

static void *small_thread(void *arg) { return arg; }
static void *maker(void *arg) { // threads come and go: vCPUs are made and given back meanwhile
    state = (u64)arg | 1;
    for (;;) {
        pthread_t t;
        if (pthread_create(&t, NULL, small_thread, NULL) == 0)
            pthread_join(t, NULL);
    }
    return NULL;
}

// ---- a child

static void descriptors(void) {
    int null = open("/dev/null", O_RDWR), p[2], s[2];
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    if (pipe(p) || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s))
        _exit(3);
    socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET, SOCK_STREAM, 0), socket(AF_NETLINK, SOCK_RAW, 0);
    memfd_create("m", MFD_ALLOW_SEALING), open("/tmp/a", O_RDWR | O_CREAT, 0600),
        open("/proc/self/fd", O_RDONLY), open("/proc/self", O_PATH);
}

static void child(u64 seed) {
    state = seed * 0x9E3779B97F4A7C15UL | 1;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    arena = mmap(NULL, ARENA, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stage = mmap(NULL, STAGE, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    descriptors();
    struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    const int sigs[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGALRM, SIGUSR1, SIGRTMIN + 1};
    for (u64 i = 0; i < COUNT(sigs); i++)
        sigaction(sigs[i], &sa, NULL);
    struct itimerval every = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &every, NULL);
    pthread_t t;
    u64 threads = seed % 4;
    for (u64 i = 0; i < threads; i++)
        pthread_create(&t, NULL, i == 2 ? maker : body, (void *)rnd());
    body((void *)rnd());
}

// One child's life; returns the run's status, 0 to go on.
static int live(pid_t pid, u64 seed, u64 *died) {
    double until = now() + 1.5, killed = 0;
    for (;;) {
        int status;
        pid_t r = waitpid(-1, &status, WNOHANG | __WALL);
        if (r > 0 && alarming(status)) {
            printf("guest_fuzz: seed %lu: process %d: status %d\n", seed, r, alarming(status));
            return 1;
        }
        if (r == pid)
            return 0;
        if (killed == 0 && now() > until) {
            kill(-pid, SIGKILL), kill(pid, SIGKILL);
            killed = now(), (*died)++;
        }
        if (killed != 0 && now() > killed + 20) {
            printf("guest_fuzz: seed %lu: process %d survives SIGKILL\n", seed, pid);
            return 2;
        }
        if (r <= 0)
            usleep(2000);
    }
}

static void surroundings(void) {
    const char *monitor = getenv("FUZZ_MONITOR"), *file = getenv("FUZZ_CANARY");
    run.canary = getenv("FUZZ_CANARIES");
    if (monitor)
        sscanf(monitor, "%lu:%lu", &run.monitor[0], &run.monitor[1]);
    if (file)
        sscanf(file, "%lu:%lu", &run.file[0], &run.file[1]);
}

int main(int argc, char **argv) {
    surroundings();
    if (argc > 2 && strcmp(argv[1], "walk") == 0)
        child(strtoul(argv[2], NULL, 0)); // the first process kills it with its own
    u64 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, n = 0, died = 0;
    double end = now() + (argc > 2 ? atof(argv[2]) : 5);
    while (now() < end) {
        u64 s = seed * 1000003 + n++;
        pid_t pid = fork();
        if (pid == 0)
            child(s);
        if (pid < 0)
            continue;
        int result = live(pid, s, &died);
        if (result)
            return result;
        kill(-1, SIGKILL); // what it left behind; we are pid 1 here
        int status;
        while (waitpid(-1, &status, WNOHANG | __WALL) > 0)
            if (alarming(status)) {
                printf("guest_fuzz: seed %lu: a process left behind: status %d\n", s, alarming(status));
                return 1;
            }
    }
    printf("guest_fuzz: seed %lu: %lu children, %lu ran to the end of their time\n", seed, n, died);
    return 0;
}
