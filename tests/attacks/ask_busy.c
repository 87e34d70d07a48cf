// User 1000 keeps root from looking at /proc. Without an argument: a process that stays in one long system call computes, and hears no
// question. "stopped": children that are stopped before they have entered themselves on the board.
#include "attack.h"
#include <grp.h>

#define LONG 8.0 // seconds; the look took ten
#define CHILDREN 10
#define POPULATE_READ 22 // MADV_POPULATE_READ

static void become_user(void) {
    if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
        attack_broken("setresuid");
}

static void busy(void) {
    const size_t size = 100UL << 30;
    become_user();
    for (;;) {
        char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            attack_broken("mmap");
        madvise(p, size, MADV_NOHUGEPAGE);
        madvise(p, size, POPULATE_READ);
        munmap(p, size);
    }
}

static double look(pid_t pid, const char *name) {
    char path[64], text[4096];
    double begun = attack_now();
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    if (fd >= 0) {
        read(fd, text, sizeof text);
        close(fd);
    } else {
        readlink(path, text, sizeof text);
    }
    return attack_now() - begun;
}

static void at_busy(void) {
    pid_t pid = fork();
    if (pid == 0)
        busy();
    usleep(500000);
    double took = look(pid, "exe");
    kill(pid, SIGKILL);
    if (took > LONG)
        attack_won("a look at /proc/PID/exe took %.1f s", took);
}

// Each look waits until its process is a second old.
static void at_stopped(void) {
    int late = 0;
    for (int i = 0; i < CHILDREN; i++) {
        double born = attack_now();
        pid_t pid = fork();
        if (pid == 0) {
            become_user();
            for (;;)
                pause();
        }
        kill(pid, SIGSTOP);
        look(pid, "status");
        late += attack_now() - born > 0.7;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (late == CHILDREN)
        attack_won("each look at a stopped child waited until it was a second old");
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        at_stopped();
    else
        at_busy();
    attack_lost();
}
