/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: ranges, sockets that carry descriptors, pidfds, signals as descriptors, exec by
 * descriptor. */
#include "host.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

int kr_close_range(unsigned int first, unsigned int last, unsigned int flags) {
    return (int)KR_CALL(SYS_close_range, first, last, flags);
}

int kr_set_cloexec(int fd, int on) { return (int)KR_CALL(SYS_fcntl, fd, F_SETFD, on ? FD_CLOEXEC : 0); }

/* Two ends of a SOCK_SEQPACKET pair, close-on-exec. */
int kr_socketpair(int *fds) {
    return (int)KR_CALL(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds);
}

/* A stream socket connected to the path socket `path`; -ENAMETOOLONG if it does not fit. */
int kr_unix_connect(const char *path) {
    struct sockaddr_un addr;
    size_t len = strlen(path);
    long r;
    int fd;

    memset(&addr, 0, sizeof(addr));
    addr.sun_family = AF_UNIX;
    if (len >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    memcpy(addr.sun_path, path, len);
    fd = (int)KR_CALL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    r = KR_CALL(SYS_connect, fd, &addr, sizeof(addr));
    if (r < 0) {
        close(fd);
        return (int)r;
    }
    return fd;
}

/* send(2) that never waits: -EAGAIN where there is no room. */
int kr_send_now(int sock, const char *data, size_t len) {
    return (int)KR_CALL(SYS_sendto, sock, data, len, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

/* One message with exactly one descriptor (unix(7), SCM_RIGHTS). */
int kr_send_fd(int sock, const char *payload, size_t len, int fd) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)payload, .iov_len = len};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head;

    memset(&control, 0, sizeof(control));
    head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
    return (int)KR_CALL(SYS_sendmsg, sock, &msg, MSG_NOSIGNAL);
}

/* Returns the payload's length; *fd is the descriptor received, or -1. */
int kr_recv_fd(int sock, char *payload, size_t len, int *fd) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = payload, .iov_len = len};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head;
    long r;

    *fd = -1;
    memset(&control, 0, sizeof(control));
    r = KR_CALL(SYS_recvmsg, sock, &msg, MSG_CMSG_CLOEXEC);
    if (r < 0)
        return (int)r;
    for (head = CMSG_FIRSTHDR(&msg); head; head = CMSG_NXTHDR(&msg, head))
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
            memcpy(fd, CMSG_DATA(head), sizeof(int));
    return (int)r;
}

int kr_pidfd_send_signal(int pidfd, int signo) {
    return (int)KR_CALL(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

/* A duplicate of descriptor fd of another process, close-on-exec (pidfd_getfd(2)). */
int kr_pidfd_getfd(int pidfd, int fd) { return (int)KR_CALL(SYS_pidfd_getfd, pidfd, fd, 0); }

int kr_execveat(int fd, const char *path, char **argv, char **envp, int flags) {
    return (int)KR_CALL(SYS_execveat, fd, path, argv, envp, flags);
}

/* Blocks every signal of the calling thread and returns a non-blocking descriptor that reads them
 * (signalfd(2)). */
int kr_signalfd_all(void) {
    sigset_t all;

    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -errno;
    return (int)kr_ret(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* The number of the next signal, 0 if none waits. */
int kr_signalfd_read(int fd, uint32_t *pid, int32_t *status) {
    struct signalfd_siginfo info;
    ssize_t n = read(fd, &info, sizeof(info));

    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    *pid = info.ssi_pid;
    *status = info.ssi_status;
    return (int)info.ssi_signo;
}

int kr_sigmask_clear(void) {
    sigset_t none;

    sigemptyset(&none);
    return (int)kr_ret(sigprocmask(SIG_SETMASK, &none, NULL));
}

/* Every signal back to its default: ignored ones would stay ignored through execve (Python ignores SIGPIPE,
 * SIGXFSZ). */
int kr_sigactions_default(void) {
    for (int signo = 1; signo < NSIG; signo++)
        if (signo != SIGKILL && signo != SIGSTOP)
            signal(signo, SIG_DFL);
    return 0;
}
