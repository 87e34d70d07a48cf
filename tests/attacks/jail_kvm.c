// Asks KVM for something by every number that may be a descriptor of the monitor's, while threads and processes come and go
// (each makes descriptors of KVM's), and by what copies, links of /proc and messages give.
#include "attack.h"
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

// Requests without an argument or with a small structure; a file that is none of KVM's answers ENOTTY to all.
static const unsigned long requests[] = {
    0xae00,     // KVM_GET_API_VERSION
    0xae01,     // KVM_CREATE_VM
    0xae03,     // KVM_CHECK_EXTENSION
    0xae04,     // KVM_GET_VCPU_MMAP_SIZE
    0xae41,     // KVM_CREATE_VCPU
    0xae80,     // KVM_RUN
    0x8138ae83, // KVM_GET_SREGS
    0x4048ae9b, // KVM_SET_GUEST_DEBUG
    0x4068aea3, // KVM_ENABLE_CAP
    0x4020ae46, // KVM_SET_USER_MEMORY_REGION
};

static void *nothing(void *unused) { return unused; }

static void *comes_and_goes(void *unused) {
    while (!attack_over()) {
        pthread_t t;
        if (!pthread_create(&t, NULL, nothing, NULL))
            pthread_join(t, NULL);
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
    return unused;
}

static void ask(int fd, const char *how) {
    char room[4096] = {0};
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++)
        if (syscall(SYS_ioctl, fd, requests[i], room) >= 0)
            attack_won("KVM's request %#lx of %d, %s", requests[i], fd, how);
}

static void ask_by_message(int fd) {
    int pair[2], got;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
        return;
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(pair[0], &m, 0) == 1 && recvmsg(pair[1], &m, MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&m)) {
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
        ask(got, "by a message");
        close(got);
    }
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    attack_check_native();
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    int limit = r.rlim_cur < 4096 ? (int)r.rlim_cur : 4096;
    pthread_t thread;
    if (pthread_create(&thread, NULL, comes_and_goes, NULL))
        attack_broken("thread");
    while (!attack_over()) {
        for (int fd = 3; fd < limit + 160 && !attack_over(); fd++) {
            char link[64];
            ask(fd, "by its number");
            int copy = fcntl(fd, F_DUPFD, 3);
            if (copy >= 0) {
                ask(copy, "by a copy");
                close(copy);
            }
            if (fd < limit - 100 && fd > 40)
                continue; // the rest where descriptors are made
            ask_by_message(fd);
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            copy = open(link, O_RDWR);
            if (copy >= 0) {
                ask(copy, "by its link");
                close(copy);
            }
        }
    }
    attack_lost();
}
