// /proc of another pid namespace: the number in it means a process of that namespace, not of the reader's.
// Reader inside, outside, and above, by the two entries that everybody may read and by what a process sees of
// itself.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static int numbers[2]; // a pipe: the number that the second process has inside

// The line of FILE/NAME that begins with key, or the comm in it. The numbers are not printed: KVM's workers
// have some.
static void line(const char *where, const char *number, const char *file, const char *key) {
    char path[128], name[64], text[8192], *at;
    const char *as = atoi(number) > 1 ? "N" : number;
    snprintf(name, sizeof name, file, number, number);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0) {
        printf("%s %s %s: %s\n", where, as, file, strerror(errno));
        return;
    }
    text[n] = 0;
    if (!key) {
        at = strrchr(text, ')');
        *(at ? at + 1 : text) = 0;
        printf("%s %s %s: %s\n", where, as, file, strchr(text, '(') ? strchr(text, '(') : "?");
        return;
    }
    for (at = text; at && strncmp(at, key, strlen(key)); at = strchr(at, '\n'), at += at != NULL)
        ;
    printf("%s %s %s: %.*s\n", where, as, file, at ? (int)strcspn(at, "\n") : 1, at ? at : "-");
}

static void look(const char *where, const char *number) {
    line(where, number, "%s/status", "Name:");
    line(where, number, "%s/stat", NULL);
    line(where, number, "%s/task/%s/status", "Name:");
    fflush(stdout);
}

static int inner(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "inner");
    if (chdir("/") < 0)
        return 1;
    close(numbers[0]);
    if (mount("proc", folder, "proc", 0, NULL) < 0)
        return 1;
    char link[64] = "", path[96];
    look("inside", "1");
    look("inside", "self");
    line("inside", "self", "%s/status", "Pid:");
    snprintf(path, sizeof path, "%s/self/cwd", folder);
    printf("inside cwd: %s\n", readlink(path, link, sizeof link - 1) > 0 ? link : strerror(errno));
    snprintf(path, sizeof path, "%s/self/maps", folder);
    printf("inside maps: %d\n", access(path, R_OK));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "second");
        snprintf(link, sizeof link, "%d", (int)getpid());
        look("second", "1");
        look("second", link);
        fflush(stdout);
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(pid, NULL, WUNTRACED);
    snprintf(link, sizeof link, "%d", (int)pid);
    look("inside", link);
    if (write(numbers[1], link, sizeof link) < 0)
        return 1;
    pause();
    return 0;
}

int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    snprintf(folder, sizeof folder, "/tmp/numbers-%d", (int)getpid());
    mkdir(folder, 0755);
    if (unshare(CLONE_NEWNS) < 0) {
        printf("unshare: %s\n", strerror(errno));
        return 0;
    }
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    prctl(PR_SET_NAME, "outer");
    if (pipe(numbers) < 0)
        return 1;
    fflush(stdout);
    pid_t pid = clone(inner, stack + sizeof stack, CLONE_NEWPID | SIGCHLD, NULL);
    if (pid < 0) {
        printf("clone: %s\n", strerror(errno));
        return 0;
    }
    char number[64] = "";
    close(numbers[1]);
    if (read(numbers[0], number, sizeof number) < 1)
        printf("no number\n");
    look("outside", "1");
    look("outside", number);
    line("outside", "self", "%s/status", "Name:");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    umount2(folder, MNT_DETACH);
    rmdir(folder);
    return 0;
}
