/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent of linux.seccomp.listenerPath, written for the kernel's listener (seccomp_unotify(2)): it knows nothing of the runtime. It
 * accepts connections at argv[1], and answers each call by its arguments (below). It prints each message of the runtime ("state JSON"),
 * and a line for each call of the program, with no number that differs from run to run. argv[2]: a request that is answered late waits
 * for so many bytes on standard input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_ADDFD
#error "kernel headers of 5.9 or newer"
#endif

static int result(int r) { return r < 0 ? -errno : r; }

/* A string of the calling thread, by /proc/PID/mem. */
static void text_of(int pid, unsigned long at, char *out, size_t size) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, (off_t)at);
    if (fd >= 0)
        close(fd);
    out[n < 0 ? 0 : n] = 0;
    if (n < 0)
        snprintf(out, size, "(errno %d)", errno);
}

static int send_answer(int fd, unsigned long id, long val, int error, unsigned flags) {
    struct seccomp_notif_resp r = {.id = id, .val = val, .error = error, .flags = flags};
    return result(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &r));
}

static int valid(int fd, unsigned long id) { return result(ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id)); }

static int add(int fd, unsigned long id, unsigned flags, int src, unsigned newfd, unsigned newflags) {
    struct seccomp_notif_addfd a = {
        .id = id, .flags = flags, .srcfd = (unsigned)src, .newfd = newfd, .newfd_flags = newflags};
    return result(ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a));
}

static void link_of(int pid, const char *what, char *out, size_t size) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/%s", pid, what);
    ssize_t n = readlink(name, out, size - 1);
    out[n < 0 ? 0 : n] = 0;
}

static void on_mkdir(int fd, const struct seccomp_notif *n) {
    char path[64], link[256];
    text_of((int)n->pid, n->data.args[0], path, sizeof path);
    const char *what = strrchr(path, '/');
    what = what ? what + 1 : path;
    if (!strncmp(what, "quiet", 5)) {
        send_answer(fd, n->id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
        return;
    }
    printf("mkdir %s %o", path, (unsigned)n->data.args[1]);
    if (!strcmp(what, "deny")) {
        printf(": %d", send_answer(fd, n->id, 0, -EXDEV, 0));
    } else if (!strcmp(what, "value")) {
        printf(": %d", send_answer(fd, n->id, 77, 0, 0));
    } else if (!strcmp(what, "huge")) {
        printf(": %d", send_answer(fd, n->id, 0x7123456789abcdef, 0, 0));
    } else if (!strcmp(what, "minus")) {
        printf(": %d", send_answer(fd, n->id, -EBUSY, 0, 0));
    } else if (!strcmp(what, "rules")) {
        printf(": unknown %d %d", valid(fd, n->id + 1000), send_answer(fd, n->id + 1000, 0, 0, 0));
        printf(", flags %d, both %d", send_answer(fd, n->id, 0, 0, 2), send_answer(fd, n->id, 1, 0, 1));
        int before = valid(fd, n->id), r = send_answer(fd, n->id, 5, 0, 0);
        /* EINPROGRESS until the thread has taken the answer, then ENOENT */
        int again = send_answer(fd, n->id, 5, 0, 0);
        printf(", valid %d, answer %d, again %d", before, r, again == -EINPROGRESS || again == -ENOENT);
        printf(", unknown request %d", result(ioctl(fd, _IO('!', 77), 0)));
        printf(", foreign request %d", result(ioctl(fd, 0x5401, path)));
        printf(", wrong size %d", result(ioctl(fd, _IOWR('!', 1, int), path)));
    } else if (!strcmp(what, "proc")) {
        struct stat st, own;
        link_of((int)n->pid, "cwd", link, sizeof link);
        printf(": cwd %s", link);
        snprintf(link, sizeof link, "/proc/%d/root/program", (int)n->pid);
        printf(", root %d", stat(link, &st));
        snprintf(link, sizeof link, "/proc/%d/fd/9", (int)n->pid);
        printf(", fd %d", result(stat(link, &st)) == 0 && S_ISFIFO(st.st_mode));
        snprintf(link, sizeof link, "/proc/%d/ns/mnt", (int)n->pid);
        printf(", other namespace %d",
               !stat(link, &st) && !stat("/proc/self/ns/mnt", &own) && st.st_ino != own.st_ino);
        printf(": %d", send_answer(fd, n->id, 0, 0, 0));
    } else if (!strncmp(what, "late", 4)) {
        char byte;
        printf(": waiting\n");
        fflush(stdout);
        if (read(0, &byte, 1) != 1)
            exit(1);
        int before = valid(fd, n->id);
        printf("mkdir %s: valid %d, answer %d", path, before, send_answer(fd, n->id, 33, 0, 0));
    } else if (!strcmp(what, "die")) {
        printf(": the agent ends\n");
        fflush(stdout);
        exit(0);
    } else {
        printf(": %d", send_answer(fd, n->id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
    }
    printf("\n");
}

/* epoll_create(variant): a descriptor for the program. */
static void on_epoll_create(int fd, const struct seccomp_notif *n) {
    int pair[2], variant = (int)n->data.args[0], r;
    if (pipe(pair) < 0 || write(pair[1], "agent", 5) != 5)
        exit(1);
    close(pair[1]);
    printf("addfd %d", variant);
    switch (variant) {
    case 1:
        r = add(fd, n->id, 0, pair[0], 0, O_CLOEXEC);
        printf(": %d, answer %d", r, send_answer(fd, n->id, r, 0, 0));
        break;
    case 2:
        r = add(fd, n->id, SECCOMP_ADDFD_FLAG_SETFD, pair[0], 100, 0);
        printf(": %d, valid %d", r, valid(fd, n->id));
        printf(", answer %d", send_answer(fd, n->id, r, 0, 0));
        break;
    case 3:
        r = add(fd, n->id, SECCOMP_ADDFD_FLAG_SEND, pair[0], 0, 0);
        printf(": %d, valid %d", r, valid(fd, n->id));
        break;
    case 4: /* number 9 is a pipe of the program's */
        r = add(fd, n->id, SECCOMP_ADDFD_FLAG_SETFD | SECCOMP_ADDFD_FLAG_SEND, pair[0], 9, O_CLOEXEC);
        printf(": %d, valid %d", r, valid(fd, n->id));
        break;
    case 5:
        printf(": no descriptor %d, flags %d %d, number %d, id %d", add(fd, n->id, 0, 9999, 0, 0),
               add(fd, n->id, 8, pair[0], 0, 0), add(fd, n->id, 0, pair[0], 0, 1),
               add(fd, n->id, 0, pair[0], 5, 0), add(fd, n->id + 1000, 0, pair[0], 0, 0));
        printf(", limit %d", add(fd, n->id, SECCOMP_ADDFD_FLAG_SETFD, pair[0], 1u << 30, 0));
        printf(", answer %d", send_answer(fd, n->id, -EMFILE, 0, 0));
        break;
    case 6: /* two, then the call itself */
        printf(": %d", add(fd, n->id, SECCOMP_ADDFD_FLAG_SETFD, pair[0], 101, 0));
        printf(" %d", add(fd, n->id, SECCOMP_ADDFD_FLAG_SETFD, pair[0], 102, 0));
        printf(" %d", send_answer(fd, n->id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
        break;
    }
    printf("\n");
    close(pair[0]);
}

/* times(buffer): the agent fills the buffer. */
static void on_times(int fd, const struct seccomp_notif *n) {
    long fill[4] = {11, 22, 33, 44}, seen[4] = {0};
    struct iovec here = {fill, sizeof fill}, read_here = {seen, sizeof seen};
    struct iovec there = {(void *)n->data.args[0], sizeof fill};
    ssize_t r = process_vm_readv((pid_t)n->pid, &read_here, 1, &there, 1, 0);
    ssize_t w = process_vm_writev((pid_t)n->pid, &here, 1, &there, 1, 0);
    printf("times: read %zd (%ld), wrote %zd: %d\n", r, seen[3], w, send_answer(fd, n->id, 99, 0, 0));
}

static void answer(int fd, const struct seccomp_notif *n) {
    switch (n->data.nr) {
    case SYS_mkdir:
        on_mkdir(fd, n);
        break;
    case SYS_epoll_create:
        on_epoll_create(fd, n);
        break;
    case SYS_times:
        on_times(fd, n);
        break;
    case SYS_getpgrp:
        send_answer(fd, n->id, 77, 0, 0);
        break;
    default:
        send_answer(fd, n->id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
    }
    fflush(stdout);
}

static void *serve(void *arg) {
    int fd = (int)(long)arg;
    struct seccomp_notif n;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN)) {
            memset(&n, 0, sizeof n);
            if (p.revents & POLLHUP) {
                printf("hang-up, receive %d\n", result(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n)));
                fflush(stdout);
            }
            close(fd);
            return NULL;
        }
        memset(&n, 0, sizeof n);
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0)
            answer(fd, &n);
        else if (errno != ENOENT && errno != EINTR)
            return NULL;
    }
}

int main(int argc, char **argv) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (argc < 2)
        return 2;
    strncpy(name.sun_path, argv[1], sizeof name.sun_path - 1);
    if (bind(l, (struct sockaddr *)&name, sizeof name) < 0 || listen(l, 10) < 0)
        return 1;
    printf("ready\n");
    for (;;) {
        static char text[65536];
        char control[CMSG_SPACE(sizeof(int))];
        struct iovec iov = {text, sizeof text - 1};
        struct msghdr m = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        pthread_t thread;
        fflush(stdout);
        int s = accept(l, NULL, NULL), fd;
        ssize_t n = recvmsg(s, &m, MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (n <= 0 || !c || c->cmsg_type != SCM_RIGHTS)
            return 3;
        text[n] = 0;
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        close(s);
        printf("state %s\n", text);
        fflush(stdout);
        pthread_create(&thread, NULL, serve, (void *)(long)fd);
    }
}
