// Costs of single things, as the program in the container sees them. Prints "name nanoseconds-per-operation"
// lines. Each measurement runs for about the milliseconds given as argument 1 (default 60); argument 2 picks
// one by name; argument 3 is a number of operations, which are then done without a measurement (tests/perf/start.py).
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void sys_getppid(long n) {
    while (n--)
        syscall(SYS_getppid);
}

static void sys_getpid(long n) {
    while (n--)
        syscall(SYS_getpid);
}

// The kernel's struct: posix_spawn(3) asks for and sets the action of each signal in a new process.
struct action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static void sigaction_get(long n) {
    struct action a;
    while (n--)
        if (syscall(SYS_rt_sigaction, SIGUSR1, NULL, &a, sizeof a.mask))
            abort();
}

static void sigaction_default(long n) {
    struct action a = {0};
    while (n--)
        if (syscall(SYS_rt_sigaction, SIGUSR1, &a, NULL, sizeof a.mask))
            abort();
}

static void futex_wake(long n) {
    static uint32_t word;
    while (n--)
        if (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) != 0)
            abort();
}

static void vdso_clock(long n) {
    struct timespec t;
    while (n--)
        clock_gettime(CLOCK_MONOTONIC, &t);
}

static void open_close(long n) {
    while (n--)
        close(open("/bin/busybox", O_RDONLY | O_CLOEXEC));
}

static void open_fstat_close(long n) {
    struct stat st;
    while (n--) {
        int fd = open("/bin/busybox", O_RDONLY | O_CLOEXEC);
        if (fstat(fd, &st))
            abort();
        close(fd);
    }
}

static void stat_path(long n) {
    struct stat st;
    while (n--)
        stat("/bin/busybox", &st);
}

static void read_4k(long n) {
    static char data[4096];
    int fd = open("/bin/busybox", O_RDONLY);
    while (n--)
        if (pread(fd, data, sizeof data, 0) != sizeof data)
            abort();
    close(fd);
}

static void pipe_byte(long n) {
    int fds[2];
    char byte = 0;
    if (pipe(fds))
        abort();
    while (n--)
        if (write(fds[1], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1)
            abort();
    close(fds[0]);
    close(fds[1]);
}

static void tcp_bytes(long n) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    char data[64] = {0};
    int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0), to;
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1) ||
        getsockname(listener, (void *)&at, &size) || connect(from, (void *)&at, sizeof at) ||
        (to = accept(listener, NULL, NULL)) < 0)
        abort();
    while (n--)
        if (send(from, data, sizeof data, 0) != sizeof data ||
            recv(to, data, sizeof data, MSG_WAITALL) != sizeof data)
            abort();
    close(from), close(to), close(listener);
}

static int there[2], back[2];

static void *echo(void *unused) {
    char byte;
    (void)unused;
    while (read(there[0], &byte, 1) == 1 && byte != 'q')
        if (write(back[1], &byte, 1) != 1)
            abort();
    return NULL;
}

static void thread_switch(long n) {
    pthread_t thread;
    char byte = 'x';
    if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, echo, NULL))
        abort();
    while (n--)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            abort();
    byte = 'q';
    if (write(there[1], &byte, 1) != 1)
        abort();
    pthread_join(thread, NULL);
    close(there[0]), close(there[1]), close(back[0]), close(back[1]);
}

static void fork_wait(long n) {
    while (n--) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
}

static void spawn(long n, char *path) {
    char *args[] = {path, "end", NULL}, *none[] = {NULL};
    while (n--) {
        pid_t pid;
        if (posix_spawn(&pid, path, NULL, NULL, args, none))
            abort();
        waitpid(pid, NULL, 0);
    }
}

// This program's path with a suffix: the same program, linked dynamically, has ".dynamic". With the argument "end" it ends at once.
static char *itself(const char *suffix) {
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    if (length < 0)
        abort();
    strcpy(path + length, suffix);
    return path;
}

static void spawn_true(long n) { spawn(n, "/bin/true"); }

static void spawn_static(long n) { spawn(n, itself("")); }

static void spawn_dynamic(long n) { spawn(n, itself(".dynamic")); }

static void exec_dynamic(long n) {
    char *path = itself(".dynamic");
    char *args[] = {path, "end", NULL}, *none[] = {NULL};
    while (n--) {
        int status;
        pid_t pid = vfork();
        if (pid == 0) {
            execve(path, args, none);
            _exit(1);
        }
        if (waitpid(pid, &status, 0) != pid || status)
            abort();
    }
}

static void *nothing(void *unused) { return unused; }

static void thread_join(long n) {
    while (n--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL))
            abort();
        pthread_join(thread, NULL);
    }
}

static void page_touch(long n) {
    const long pages = 1024;
    while (n > 0) {
        volatile char *p =
            mmap(NULL, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            abort();
        for (long i = 0; i < pages && i < n; i++)
            p[i << 12] = 1;
        munmap((void *)p, pages << 12);
        n -= pages;
    }
}

static void page_touch_big(long n) {
    const long pages = 16384;
    while (n--) {
        volatile char *p =
            mmap(NULL, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            abort();
        for (long i = 0; i < pages; i++)
            p[i << 12] = 1;
        munmap((void *)p, pages << 12);
    }
}

static void map_unmap(long n) {
    while (n--) {
        void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(p, 65536);
    }
}

static void malloc_free(long n) {
    while (n--) {
        char *p = malloc(64);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
}

static volatile uint64_t sink;

static void cpu_integer(long n) {
    uint64_t x = 88172645463325252ull;
    for (long i = 0; i < n * 1000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

static void cpu_float(long n) {
    double a = 1.0;
    for (long i = 0; i < n * 1000; i++)
        a = a * 1.0000001 + 1e-9;
    sink = (uint64_t)a;
}

static void memory_copy(long n) {
    static char *from, *to;
    const size_t size = 16 << 20;
    if (!from) {
        from = malloc(size), to = malloc(size);
        memset(from, 1, size), memset(to, 2, size);
    }
    while (n--)
        memcpy(to, from, size);
}

static void memory_chase(long n) {
    const size_t count = 4 << 20;
    static uint32_t *next;
    if (!next) {
        next = malloc(count * sizeof *next);
        for (size_t i = 0; i < count; i++)
            next[i] = i;
        uint64_t x = 88172645463325252ull;
        for (size_t i = count - 1; i > 0; i--) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            size_t j = x % i;
            uint32_t t = next[i];
            next[i] = next[j], next[j] = t;
        }
    }
    uint32_t at = 0;
    for (long i = 0; i < n * 1000; i++)
        at = next[at];
    sink = at;
}

static const struct {
    const char *name;
    void (*run)(long n);
    long per; // operations in one step of n
} table[] = {
    {"getppid", sys_getppid, 1},
    {"getpid", sys_getpid, 1},
    {"sigaction_get", sigaction_get, 1},
    {"sigaction_default", sigaction_default, 1},
    {"futex_wake", futex_wake, 1},
    {"clock_gettime", vdso_clock, 1},
    {"stat", stat_path, 1},
    {"open_close", open_close, 1},
    {"open_fstat_close", open_fstat_close, 1},
    {"pread_4k", read_4k, 1},
    {"pipe_write_read", pipe_byte, 1},
    {"tcp_send_recv", tcp_bytes, 1},
    {"thread_ping_pong", thread_switch, 1},
    {"thread_create_join", thread_join, 1},
    {"fork_wait", fork_wait, 1},
    {"posix_spawn_true", spawn_true, 1},
    {"posix_spawn_static", spawn_static, 1},
    {"posix_spawn_dynamic", spawn_dynamic, 1},
    {"vfork_exec_dynamic", exec_dynamic, 1},
    {"mmap_munmap_64k", map_unmap, 1},
    {"page_touch_4m", page_touch, 1},
    {"page_touch_64m", page_touch_big, 16384},
    {"malloc_free", malloc_free, 1},
    {"cpu_integer", cpu_integer, 1000},
    {"cpu_float", cpu_float, 1000},
    {"memcpy_16m", memory_copy, 1},
    {"pointer_chase_16m", memory_chase, 1000},
};

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "end"))
        return 0;
    double budget = (argc > 1 ? atof(argv[1]) : 60) * 1e6;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (argc > 2 && strcmp(argv[2], table[i].name))
            continue;
        if (argc > 3) {
            table[i].run(atol(argv[3]));
            continue;
        }
        long n = 1;
        double spent;
        table[i].run(1);
        for (;;) {
            double begin = now();
            table[i].run(n);
            spent = now() - begin;
            if (spent >= budget / 2 || n > (1L << 40))
                break;
            n *= spent < budget / 16 ? 8 : 2;
        }
        printf("%s %.2f\n", table[i].name, spent / n / table[i].per);
        fflush(stdout);
    }
    return 0;
}
