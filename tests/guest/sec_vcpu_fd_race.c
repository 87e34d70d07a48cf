// krun: timeout=60
// Descriptors that come and go below while threads are made (a monitor may make one for each) are no business
// of the payload: no dup(2), dup2(2), fcntl(2), mmap(2) or SCM_RIGHTS gets hold of an anonymous inode that it
// did not make.
#include "guest.h"
#include <sys/socket.h>
static volatile int stop;
static int strangers;
static void look(int fd) {
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && !(st.st_mode & S_IFMT))
        __atomic_add_fetch(&strangers, 1, __ATOMIC_RELAXED);
}
static void *thief(void *arg) {
    long kind = (long)arg;
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair);
    while (!stop)
        for (int fd = 4; fd < 14; fd++) {
            int got = -1;
            char control[CMSG_SPACE(sizeof(int))] = {0};
            struct iovec v = {control, 1};
            struct msghdr m = {
                .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
            switch (kind) {
            case 0:
                got = dup(fd);
                break;
            case 1:
                got = dup2(fd, 60);
                break;
            case 2:
                got = fcntl(fd, F_DUPFD, 40);
                break;
            case 3: {
                void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (p != MAP_FAILED)
                    __atomic_add_fetch(&strangers, 1, __ATOMIC_RELAXED), munmap(p, PAGE);
                break;
            }
            default: {
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(c), &fd, sizeof fd);
                char byte;
                struct iovec w = {&byte, 1};
                if (sendmsg(pair[0], &m, 0) >= 0) {
                    m.msg_iov = &w;
                    if (recvmsg(pair[1], &m, 0) > 0 && CMSG_FIRSTHDR(&m))
                        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
                }
            }
            }
            look(got);
            if (got > 13)
                close(got);
        }
    return NULL;
}
static void *waiter(void *arg) {
    while (!stop)
        usleep(1000);
    return arg;
}
int main(int argc, char **argv) {
    for (int round = 0; round < 5; round++) { // a fresh process makes its threads' things anew
        pid_t c = fork();
        if (!c) {
            pthread_t t[30], th;
            pthread_create(&th, NULL, thief, (void *)(long)round);
            for (unsigned i = 0; i < COUNT(t); i++)
                pthread_create(&t[i], NULL, waiter, NULL);
            stop = 1;
            for (unsigned i = 0; i < COUNT(t); i++)
                pthread_join(t[i], NULL);
            pthread_join(th, NULL);
            say("%d strangers", strangers);
            _exit(0);
        }
        int status;
        waitpid(c, &status, 0);
        say("round %d: status %d", round, status);
    }
    return 0;
}
