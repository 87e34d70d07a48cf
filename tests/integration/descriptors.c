// What docs/limits.md says of descriptors that the monitor shares with threads, and of threads of a vfork
// child.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *idle(void *a) {
    pause();
    return a;
}

// Every number below the limit, by dup2 and dup3: how many took a copy, how many are refused as beyond the limit.
static void copies(const char *who, int limit) {
    int taken = 0, refused = 0, other = 0;
    for (int n = 20; n < limit; n++) {
        int r = n & 1 ? dup2(1, n) : dup3(1, n, O_CLOEXEC);
        if (r == n)
            taken++, close(n);
        else if (errno == EBADF)
            refused++;
        else
            other++;
    }
    printf("%s: %s, %s, other %d\n", who, refused ? "some refused" : "none refused",
           taken > limit - 100 ? "most taken" : "FEW TAKEN", other);
}

static int thread_main(void *a) {
    syscall(SYS_exit, 0);
    return a != NULL;
}

int main(void) {
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    int limit = lim.rlim_cur > 5000 ? 5000 : (int)lim.rlim_cur;
    static char stack[65536];
    setvbuf(stdout, NULL, _IONBF, 0);
    pid_t p = vfork();
    if (!p) {
        int r = clone(thread_main, stack + sizeof stack,
                      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
        _exit(r < 0 ? errno : 0);
    }
    int status;
    waitpid(p, &status, 0);
    printf("thread of a vfork child: %s\n",
           strerrorname_np(WEXITSTATUS(status)) ? strerrorname_np(WEXITSTATUS(status)) : "0");
    copies("alone", limit);
    pthread_t t;
    if (pthread_create(&t, NULL, idle, NULL))
        return 1;
    copies("with a thread", limit);
    printf("still served: %s\n", fork() == 0 ? (_exit(0), "") : wait(&status) > 0 ? "yes" : "no");
    return 0;
}
