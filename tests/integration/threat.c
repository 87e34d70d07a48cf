// What a hostile program tries from inside a container. Prints one line per attempt: "name: result"; exits 0.
// Built static by test_threat.py; run by runc and by krun.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static const char *word(long r) { return r < 0 ? strerrorname_np(errno) : "done"; }

static void open_device(void) {
    printf("open /dev/kvm: %s\n", word(open("/dev/kvm", O_RDWR)));
    long r = mknod("/tmp/kvm", S_IFCHR | 0666, makedev(10, 232));
    printf("mknod kvm: %s\n", word(r));
    if (r == 0)
        printf("open made kvm: %s\n", word(open("/tmp/kvm", O_RDWR)));
}

// Every descriptor number that answers, without /proc.
static void descriptors(void) {
    printf("descriptors:");
    for (int fd = 0; fd < 70000; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf(" %d", fd);
    printf("\n");
    printf("KVM ioctls:");
    for (int fd = 0; fd < 70000; fd++)
        if (ioctl(fd, KVM_GET_API_VERSION, 0) >= 0 || ioctl(fd, KVM_CHECK_EXTENSION, KVM_CAP_NR_VCPUS) > 0)
            printf(" %d", fd);
    printf("\n");
}

static void listed(const char *path) {
    DIR *dir = opendir(path);
    printf("%s:", path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir)) {
            char name[300], target[300] = "";
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            if (readlink(name, target, sizeof target - 1) > 0 &&
                (strstr(target, "kvm") || strstr(target, "krun") || strstr(target, "memfd")))
                printf(" %s=%s", entry->d_name, target);
        }
    printf("\n");
    if (dir)
        closedir(dir);
}

static void file_has(const char *path, const char *what) {
    static char text[1 << 20];
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? -1 : 0, got;
    while (n >= 0 && n < (long)sizeof text - 1 && (got = read(fd, text + n, sizeof text - 1 - n)) > 0)
        n += got;
    for (long i = 0; i < n; i++)
        if (text[i] == 0)
            text[i] = ' ';
    text[n < 0 ? 0 : n] = 0;
    printf("%s has %s: %s\n", path, what, strstr(text, what) ? "yes" : "no");
    if (fd >= 0)
        close(fd);
}

// The program behind /proc/self/exe: replaced, the next exec of the host's file would be ours
// (CVE-2019-5736).
static void executable(void) {
    char path[300] = "";
    printf("exe: %s\n", readlink("/proc/self/exe", path, sizeof path - 1) < 0 ? "?" : path);
    struct stat own, exe;
    printf("exe is the program: %s\n", stat("/threat", &own) == 0 && stat("/proc/self/exe", &exe) == 0 &&
                                               own.st_ino == exe.st_ino && own.st_dev == exe.st_dev
                                           ? "yes"
                                           : "no");
    int fd = open("/proc/self/exe", O_RDONLY);
    unsigned char head[4096] = {0}, mine[4096] = {0};
    int self = open("/threat", O_RDONLY);
    printf("content of exe is the program's: %s\n", read(fd, head, sizeof head) > 0 &&
                                                            read(self, mine, sizeof mine) > 0 &&
                                                            !memcmp(head, mine, sizeof head)
                                                        ? "yes"
                                                        : "no");
    printf("write to exe: %s\n", word(open("/proc/self/exe", O_WRONLY)));
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    printf("write to exe by descriptor: %s\n", word(open(again, O_WRONLY)));
}

static void maps(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    char line[1000];
    unsigned long low, high, highest = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%lx-%lx", &low, &high) == 2 && high < 0x800000000000 && high > highest)
            highest = high;
    // Reading it through a system call must fail as it would for any address that is not mapped.
    int pipes[2];
    if (pipe(pipes))
        exit(1);
    long bad = 0;
    for (unsigned long at = 0x6a0000000000; at < 0x7ffffffff000; at += 0x10000000000)
        bad += write(pipes[1], (void *)at, 1) > 0;
    (void)highest;
    printf("readable above the window by a system call: %s\n", bad ? "some" : "none");
}

// Somebody else's memory, in each of the ways there are.
static void memory_of(pid_t pid, const char *name) {
    char path[64], byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x7fff00000000, 1};
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDWR);
    printf("%s mem above the window: %s\n", name,
           fd < 0 || pread(fd, &byte, 1, 0x7f0000000000) < 0 ? "refused" : "READ");
    printf("%s process_vm_readv above the window: %s\n", name,
           process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 ? "refused" : "READ");
    if (fd >= 0)
        close(fd);
}

static void memory(void) {
    memory_of(getpid(), "own");
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    memory_of(child, "child");
    long r = ptrace(PTRACE_ATTACH, child, 0, 0);
    if (r == 0) {
        waitpid(child, NULL, 0);
        errno = 0;
        r = ptrace(PTRACE_PEEKDATA, child, (void *)0x7f0000000000, 0);
        printf("child's monitor by ptrace: %s\n", r == -1 && errno ? "refused" : "READ");
    } else {
        printf("child's monitor by ptrace: refused\n");
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void all_processes(void) {
    DIR *dir = opendir("/proc");
    char path[300];
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (atoi(entry->d_name) > 0) {
            snprintf(path, sizeof path, "/proc/%s/fd", entry->d_name);
            DIR *fds = opendir(path);
            for (struct dirent *fd; fds && (fd = readdir(fds));) {
                char name[600], target[300] = "";
                snprintf(name, sizeof name, "%.200s/%.200s", path, fd->d_name);
                if (readlink(name, target, sizeof target - 1) > 0 &&
                    (strstr(target, "kvm") || strstr(target, "krun-monitor")))
                    printf("process %s shows %s\n", entry->d_name, target);
            }
            if (fds)
                closedir(fds);
        }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_device();
    descriptors();
    listed("/proc/self/fd");
    listed("/proc/1/fd");
    listed("/proc/thread-self/fd");
    all_processes();
    file_has("/proc/self/environ", "KRUN");
    file_has("/proc/1/environ", "KRUN");
    file_has("/proc/self/maps", "krun");
    file_has("/proc/self/maps", "kvm");
    file_has("/proc/self/smaps", "kvm");
    file_has("/proc/1/cmdline", "monitor");
    file_has("/proc/self/mountinfo", "krun-monitor");
    executable();
    maps();
    memory();
    printf("dumpable can be set: %s\n", word(prctl(PR_SET_DUMPABLE, 1)));
    listed("/proc/self/fd");
    // At last: close everything.  The monitor must go on serving.
    printf("close_range: %s\n", word(syscall(SYS_close_range, 3, ~0U, 0)));
    for (int fd = 3; fd < 70000; fd++)
        close(fd);
    for (int fd = 100; fd < 1024; fd += 100)
        dup2(1, fd);
    printf("still served: yes\n");
    fflush(stdout);
    return 0;
}
