// environ of another process, where no monitor answers: a variable with a name of the monitor's own does not
// hide the others, and a signal does not end the reading: proc_pid_environ(5). krun: host
#include "guest.h"

static volatile int alarms;
static void tick(int sig) {
    (void)sig;
    alarms++;
}

static int has(const char *text, ssize_t n, const char *want) {
    return n > 0 && memmem(text, (size_t)n, want, strlen(want) + 1) != NULL;
}

static void put(const char *path, const char *text) {
    int fd = (int)MUST(open(path, O_WRONLY));
    MUST(write(fd, text, strlen(text)));
    close(fd);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        MUST(write(1, "ready\n", 6));
        pause_ms(20000);
        return 0;
    }
    char path[64], text[4096], byte[8], *env[] = {"FIRST=1", "KRUN_BOOT=@1", "LAST=2", "KRUN_BOOT=3", NULL};
    int ready[2], errors = 0;
    MUST(pipe(ready));
    MUST(unshare(CLONE_NEWUSER));
    put("/proc/self/uid_map", "0 0 1"), put("/proc/self/setgroups", "deny"),
        put("/proc/self/gid_map", "0 0 1");
    MUST(unshare(CLONE_NEWPID));
    pid_t pid = CHILD({
        dup2(ready[1], 1);
        char *args[] = {"x", "wait", NULL};
        execve("/proc/self/exe", args, env);
        _exit(9);
    });
    MUST(read(ready[0], byte, sizeof byte));
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &a, NULL);
    struct itimerval each = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &each, NULL);
    for (int i = 0; i < 20; i++) {
        int fd = open(path, O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        errors += !has(text, n, "FIRST=1") || !has(text, n, "LAST=2");
        close(fd);
    }
    while (!alarms)
        ;
    say("not read %d times of 20", errors);
    kill(pid, SIGKILL);
    reap("the other", pid);
    return wrong;
}
