// Who looks at another process in /proc is not held up by a socket that a third one has sent along, and whose
// close waits (SO_LINGER, SCM_RIGHTS: socket(7), unix(7)). krun: host timeout=40
#include "guest.h"
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in to_peer = {.sin_family = AF_INET};

// A TCP socket whose last close waits for an hour: its peer reads nothing.
static int lingering(void) {
    static char full[1 << 16];
    int s = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(s, (void *)&to_peer, sizeof to_peer));
    while (send(s, full, sizeof full, MSG_DONTWAIT) > 0)
        ;
    struct linger hour = {1, 3600};
    MUST(setsockopt(s, SOL_SOCKET, SO_LINGER, &hour, sizeof hour));
    return s;
}

static int sends(const char *name, int fd) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path + 1, name, 5);
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec iov = {"0123456789012345", 16};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    int sent = connect(s, (void *)&to, 8) == 0 && sendmsg(s, &m, MSG_DONTWAIT) > 0;
    close(s);
    return sent;
}

// Sends such a socket to every listener with a name that the kernel has chosen.
static void attack(void) {
    socklen_t len = sizeof to_peer;
    int peer = MUST(socket(AF_INET, SOCK_STREAM, 0));
    to_peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(bind(peer, (void *)&to_peer, len)), MUST(listen(peer, 50));
    MUST(getsockname(peer, (void *)&to_peer, &len));
    for (;;) {
        char line[256];
        FILE *f = fopen("/proc/net/unix", "r");
        while (f && fgets(line, sizeof line, f)) {
            char *at = strchr(line, '@');
            if (!at || strcspn(at + 1, "\n") != 5)
                continue;
            pid_t pid = fork(); /* a process that ends does not wait for its sockets */
            if (pid == 0)
                sends(at + 1, lingering()), _exit(0);
            waitpid(pid, NULL, 0);
        }
        fclose(f);
    }
}

static void *idle(void *unused) {
    pause();
    return unused;
}

int main(int argc, char **argv) {
    char path[64], text[64];
    int status = 0;
    MUST(unshare(CLONE_NEWNET));
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int s = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(ioctl(s, SIOCSIFFLAGS, &lo)), close(s);
    pid_t silent = CHILD({
        pid_t self = getpid();
        if (vfork() == 0) {
            while (getppid() == self) /* until it is killed */
                pause_ms(20);
            _exit(0);
        }
    });
    pid_t third = CHILD(attack());
    pause_ms(100);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)silent);
    pid_t reader[2];
    for (int i = 0; i < 2; i++)
        reader[i] = CHILD({
            pthread_t thread;
            if (i)
                pthread_create(&thread, NULL, idle, NULL);
            readlink(path, text, sizeof text);
        });
    for (int i = 0; i < 2; i++) {
        pid_t ended = 0;
        for (int n = 0; n < 1000 && !ended; n++)
            pause_ms(10), ended = waitpid(reader[i], &status, WNOHANG);
        say("%s %s", i ? "a process of two threads" : "a process", ended == reader[i] ? "ends" : "hangs");
    }
    kill(third, SIGKILL), kill(reader[0], SIGKILL), kill(reader[1], SIGKILL), kill(silent, SIGKILL);
    return 0;
}
