/* SPDX-License-Identifier: Apache-2.0
 *
 * The program of a container with an agent (seccomp_agent.c): each word of its command line is a case, whose results it prints.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long call(long nr, long a, long b) {
    long r = syscall(nr, a, b);
    return r == -1 ? -errno : r;
}

static long make(const char *path) { return call(SYS_mkdir, (long)path, 0750); }

static void show(const char *path) {
    struct stat st;
    long r = make(path);
    printf("%s: %lx, %s\n", path, r, stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? "there" : "not there");
}

static void descriptor(long variant, int number) {
    char text[16] = "";
    long r = call(SYS_epoll_create, variant, 0);
    int fd = number ? number : (int)r;
    ssize_t n = r < 0 ? -1 : read(fd, text, sizeof text - 1);
    printf("descriptor %ld: %ld, %zd %s, flags %d\n", variant, r, n, text, fcntl(fd, F_GETFD));
    if (fd > 9)
        close(fd);
}

static void *many(void *arg) {
    char path[32];
    long bad = 0;
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "/tmp/quiet%ld-%d", (long)arg, i);
        long r = make(path);
        if (r != 0 || rmdir(path) != 0)
            printf("%s: %ld, then %d\n", path, r, r ? 0 : errno), bad++;
    }
    return (void *)bad;
}

static int child(void *arg) {
    (void)arg;
    _exit(make("/tmp/deny") == -EXDEV ? 7 : 1);
}

static int status_of(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static volatile int caught;
static void on_signal(int sig) {
    (void)sig;
    caught++;
    if (write(1, "caught\n", 7) != 7)
        _exit(9);
}

static void interrupted(int flags) {
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGALRM, &a, NULL);
    struct itimerval in = {.it_value = {.tv_usec = 200000}};
    setitimer(ITIMER_REAL, &in, NULL);
    caught = 0;
    long r = make(flags ? "/tmp/late-restart" : "/tmp/late");
    printf("interrupted: %ld, caught %d\n", r, caught);
}

static void count(int sig) {
    (void)sig;
    caught++;
}

/* Many calls at once while signals come, processes are made and the process is looked at. */
static long stress(void) {
    struct sigaction a = {.sa_handler = count, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    pthread_t t[6];
    void *r;
    long bad = 0;
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long k = 0; k < 6; k++)
        pthread_create(&t[k], NULL, many, (void *)k);
    for (int k = 0; k < 10; k++) {
        pid_t pid = fork();
        if (!pid) {
            char name[64], target[256];
            snprintf(name, sizeof name, "/proc/%d/exe", getppid());
            /* A process that is busy may not answer in time (krun/native/view/ask.h). */
            if (readlink(name, target, sizeof target) != 8 && errno != EACCES)
                _exit(2);
            _exit((long)many((void *)(100L + k)) != 0);
        }
        bad += status_of(pid) != 0;
    }
    for (int k = 0; k < 6; k++) {
        pthread_join(t[k], &r);
        bad += (long)r;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    return bad;
}

static void *late(void *arg) { return (void *)make(arg); }

/* nanosleep(rdi, NULL) and a return; at 16: getpgrp() and a return. */
static const unsigned char sleeper[] = {0xb8, 35,   0,    0,    0,    0x31, 0xf6, 0x0f,
                                        0x05, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                        0xb8, 111,  0,    0,    0,    0x0f, 0x05, 0xc3};
static void *changes(void *code) {
    usleep(200000);
    *(volatile unsigned short *)((unsigned char *)code + 7) = 0x07eb; /* a jump to getpgrp */
    pid_t pid = fork();
    if (!pid) {
        char name[64], target[256];
        snprintf(name, sizeof name, "/proc/%d/exe", getppid());
        _exit(readlink(name, target, sizeof target) != 8);
    }
    return (void *)(long)status_of(pid);
}

/* The agent lets the program sleep. A thread changes the instruction of the call meanwhile, and another process's look interrupts it.
 * 1: the call that is made now has not been told to the agent. */
static int changed(void) {
    const struct timespec second = {1, 0};
    unsigned char *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t t;
    void *failed;
    memcpy(code, sleeper, sizeof sleeper);
    pthread_create(&t, NULL, changes, code);
    long r = ((long (*)(const struct timespec *))code)(&second);
    pthread_join(t, &failed);
    return failed || (r != 0 && r != 77);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        const char *w = argv[i];
        if (!strcmp(w, "answers")) {
            show("/tmp/deny");
            show("/tmp/value");
            show("/tmp/huge");
            show("/tmp/minus");
            show("/tmp/rules");
            show("/tmp/passed");
            show("/tmp/passed");
        } else if (!strcmp(w, "memory")) {
            long buffer[4] = {0, 0, 0, 7};
            long r = call(SYS_times, (long)buffer, 0);
            printf("memory: %ld %ld %ld\n", r, buffer[0], buffer[3]);
            long *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            r = call(SYS_times, (long)file, 0);
            printf("shared: %ld %ld\n", r, file[1]);
            long *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            r = call(SYS_times, (long)fresh, 0);
            printf("untouched: %ld %ld\n", r, fresh[1]);
        } else if (!strcmp(w, "descriptors")) {
            int pair[2];
            if (pipe(pair) < 0 || dup2(pair[0], 9) != 9)
                return 1;
            if (chdir("/tmp"))
                return 1;
            printf("proc: %ld\n", make("/proc"));
            descriptor(1, 0);
            descriptor(2, 0);
            descriptor(3, 0);
            descriptor(4, 0);
            descriptor(5, 0);
            long r = call(SYS_epoll_create, 6, 0);
            printf("two: %d, %d, and the call's own %d\n", fcntl(101, F_GETFD), fcntl(102, F_GETFD), r > 2);
        } else if (!strcmp(w, "threads")) {
            pthread_t t[4];
            void *r;
            long bad = 0;
            for (long k = 0; k < 4; k++)
                pthread_create(&t[k], NULL, many, (void *)k);
            for (int k = 0; k < 4; k++) {
                pthread_join(t[k], &r);
                bad += (long)r;
            }
            printf("threads: %ld bad\n", bad);
        } else if (!strcmp(w, "processes")) {
            static char stack[65536] __attribute__((aligned(16)));
            pid_t pid = fork();
            if (!pid)
                child(NULL);
            printf("fork: %d\n", status_of(pid));
            printf("vfork: %d\n",
                   status_of(clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL)));
            pid = fork();
            if (!pid) {
                execl("/program", "program", "one", NULL);
                _exit(2);
            }
            printf("exec: %d\n", status_of(pid));
        } else if (!strcmp(w, "one")) {
            show("/tmp/one");
        } else if (!strcmp(w, "eintr")) {
            interrupted(0);
        } else if (!strcmp(w, "restart")) {
            interrupted(SA_RESTART);
        } else if (!strcmp(w, "fork-while-waiting") || !strcmp(w, "looked-at")) {
            int look = w[0] == 'l';
            pthread_t t;
            void *r;
            pthread_create(&t, NULL, late, "/tmp/late-others");
            usleep(200000);
            for (int k = 0; k < 5; k++) {
                pid_t pid = fork();
                if (!pid) {
                    char name[64], target[256];
                    snprintf(name, sizeof name, "/proc/%d/exe", getppid());
                    _exit(look ? readlink(name, target, sizeof target) != 8 : 0);
                }
                if (status_of(pid))
                    return 1;
                usleep(20000);
            }
            printf("done\n");
            pthread_join(t, &r);
            printf("waited: %ld\n", (long)r);
        } else if (!strcmp(w, "changed")) {
            printf("unheard: %d\n", changed());
        } else if (!strcmp(w, "killed")) {
            pid_t pid = fork();
            if (!pid) {
                make("/tmp/late-killed");
                _exit(3);
            }
            usleep(300000);
            kill(pid, SIGKILL);
            printf("killed: %d\n", status_of(pid));
            show("/tmp/after");
        } else if (!strcmp(w, "exits")) { /* the process ends while a thread waits */
            pthread_t t;
            pthread_create(&t, NULL, late, "/tmp/late-exits");
            usleep(300000);
            exit(5);
        } else if (!strcmp(w, "agent-dies")) {
            printf("dies: %ld\n", make("/tmp/die"));
            printf("dead: %ld\n", make("/tmp/dead"));
        } else if (!strcmp(w, "stress")) {
            long bad = stress();
            printf("stress: %ld bad, signals %d\n", bad, caught > 0);
        } else if (!strcmp(w, "wait")) {
            for (;;)
                pause();
        } else if (!strcmp(w, "price")) { /* the least of 20 batches of 50 calls */
            for (int part = 0; part < 2; part++) {
                double least = 1e9;
                for (int batch = 0; batch < 20; batch++) {
                    struct timespec a, b;
                    clock_gettime(CLOCK_MONOTONIC, &a);
                    for (int k = 0; k < 50; k++)
                        part ? make("/quiet") : call(SYS_getppid, 0, 0);
                    clock_gettime(CLOCK_MONOTONIC, &b);
                    double us = (double)((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec) / 50e3;
                    least = us < least ? us : least;
                }
                printf("%s: %.2f us\n", part ? "notified" : "getppid", least);
            }
        }
    }
    return 0;
}
