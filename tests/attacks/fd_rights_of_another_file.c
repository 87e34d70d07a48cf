// SCM_RIGHTS while the table of descriptors changes: what is sent is copied first, many descriptors at a time; another thread
// closes the number of the first copy, and a third one makes threads, whose vCPUs' descriptors take the lowest free
// number.  What arrives must be what was sent: no descriptor of KVM's, and no other object of the monitor's.
#include "crowd.h"
#include <sys/socket.h>

#define SENT 200

static int sockets[2], file;
static volatile int arrived;
static struct stat real;

static void *closer(void *argument) {
    while (!crowd_over)
        close(3);
    return argument;
}

static int send_many(void) {
    char byte = 0, control[CMSG_SPACE(SENT * sizeof(int))];
    struct iovec v = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(SENT * sizeof(int));
    for (int i = 0; i < SENT; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), &file, sizeof(int));
    return sendmsg(sockets[0], &m, MSG_DONTWAIT) == 1;
}

// 0: nothing or what was sent; 1: another file; 2: one that can be mapped as KVM's can.
static int receive(void) {
    char byte, control[CMSG_SPACE(SENT * sizeof(int))];
    struct iovec v = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(sockets[1], &m, MSG_DONTWAIT) != 1)
        return 0;
    int won = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            struct stat st;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            arrived++;
            if (!won && fstat(fd, &st) == 0 && (st.st_ino != real.st_ino || st.st_dev != real.st_dev)) {
                void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                won = p == MAP_FAILED ? 1 : 2;
            }
            close(fd);
        }
    }
    return won;
}

static void one(void *argument) {
    (void)argument;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) < 0)
        attack_broken("socketpair");
    sockets[0] = dup2(sockets[0], 40), sockets[1] = dup2(sockets[1], 41), file = dup2(0, 42);
    fstat(file, &real);
    close(3), close(4);
    pthread_t maker, other;
    if (pthread_create(&maker, NULL, crowd_maker, NULL) != 0 ||
        pthread_create(&other, NULL, closer, NULL) != 0)
        attack_broken("pthread_create");
    int won = 0;
    while (!crowd_over && !won)
        if (send_many())
            won = receive();
    crowd_over = 1;
    _exit(won ? won : arrived ? 0 : 3);
}

int main(void) {
    do {
        int status = attack_child(one, NULL);
        if (!WIFEXITED(status))
            attack_won("a process with threads died of signal %d", WTERMSIG(status));
        if (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2)
            attack_won("a descriptor that was not sent has arrived%s",
                       WEXITSTATUS(status) == 2 ? ", and can be mapped" : "");
        if (WEXITSTATUS(status) == 3)
            attack_broken("no descriptor has arrived in a whole round");
    } while (!attack_over());
    attack_lost();
}
