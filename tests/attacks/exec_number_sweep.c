// Every number in every way that a payload can close, replace, copy, pass or mark a descriptor, from one process, from a thread, and
// from relatives with a copy of the table or the same one; then an execve. No number may be the monitor's, and none may stop it.
#include "attack.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { MOST = 4120 };
static char stack[65536];

static int foreign(int fd) {
    char name[64], link[256] = "";
    struct stat st;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, link, sizeof link - 1) < 0 || fstat(fd, &st) < 0)
        return 0;
    return strstr(link, "kvm") || strstr(link, "krun");
}

static void pass(int fd) {
    int pair[2], got = -1;
    char data = 0;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } c = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec v = {&data, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return;
    memcpy(CMSG_DATA(&c.head), &fd, sizeof fd);
    if (sendmsg(pair[0], &m, MSG_DONTWAIT) == 1 && recvmsg(pair[1], &m, MSG_DONTWAIT) == 1)
        memcpy(&got, CMSG_DATA(&c.head), sizeof got);
    if (got >= 0 && foreign(got))
        attack_won("descriptor %d went through a message", fd);
    close(got), close(pair[0]), close(pair[1]);
}

static int sweep(void *arg) {
    int own = open("/attack", O_RDONLY), kind = (int)(intptr_t)arg;
    for (int n = kind & 1 ? 3 : MOST; kind & 1 ? n < MOST : n > 2; n += kind & 1 ? 1 : -1) {
        if (n == own || (n > 40 && n < 930) || (n > 1200 && n < 4000)) // the monitor's lie near a limit
            continue;
        if (foreign(n))
            attack_won("descriptor %d is in sight", n);
        int copy = dup(n);
        if (copy >= 0 && foreign(copy))
            attack_won("descriptor %d was copied", n);
        close(copy);
        copy = fcntl(n, F_DUPFD_CLOEXEC, 3);
        if (copy >= 0 && foreign(copy))
            attack_won("descriptor %d was copied by fcntl", n);
        close(copy);
        if (n % 8 == 0 || n > 900)
            pass(n);
        fcntl(n, F_SETFD, FD_CLOEXEC);
        if (kind & 2)
            close(n);
        syscall(SYS_close_range, n, n, kind & 4 ? 4 /* CLOSE_RANGE_CLOEXEC */ : 0);
        dup2(own, n);
        syscall(SYS_dup3, own, n, 0);
    }
    if (kind & 4)
        syscall(SYS_close_range, own + 1, ~0U, 2 /* CLOSE_RANGE_UNSHARE */);
    while (fcntl(own, F_DUPFD, 3) >= 0)
        ;
    return 0;
}

static void *sweep_thread(void *arg) {
    sweep(arg);
    return NULL;
}

static void one(void *arg) {
    int kind = (int)(intptr_t)arg;
    pthread_t thread;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    if (kind & 1)
        setrlimit(RLIMIT_NOFILE, &r);
    if (kind >> 3 == 0) {
        sweep(arg);
    } else if (kind >> 3 == 1) {
        pthread_create(&thread, NULL, sweep_thread, arg);
        pthread_join(thread, NULL);
    } else {
        int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | (kind >> 3 == 2 ? CLONE_FILES : 0);
        clone(sweep, stack + sizeof stack, flags, arg);
    }
    for (int n = 3; n < 60; n++) // the monitor needs a few numbers for a moment
        close(n);
    execl("/attack", "attack", "begun", NULL);
    attack_won("no program can be started after the sweep: %s", strerror(errno));
}

int main(int argc, char **argv) {
    attack_check_native();
    if (argc > 1)
        return 0;
    (void)argv;
    for (intptr_t kind = 0; kind < 32 && !attack_over(); kind++) {
        int status = attack_child(one, (void *)kind);
        if (attack_child_won(status) || status)
            attack_won("way %d ended with status %x", (int)kind, (unsigned)status);
    }
    attack_lost();
}
