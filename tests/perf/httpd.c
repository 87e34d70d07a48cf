// The smallest HTTP/1.1 server that a load generator can drive: one thread, epoll, the same 42 bytes for every head.
// For ./dev bench --series serve: what is measured is the proxy in front of it. Argument: the port.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 42\r\n\r\n"
                             "Forty-two bytes of a small server's text.\n";

static void serve(int fd) {
    char data[65536];
    ssize_t n = read(fd, data, sizeof data);
    if (n <= 0) {
        close(fd);
        return;
    }
    // wrk and the proxies send a head in one piece and wait for its answer.
    for (char *at = data; (at = memmem(at, data + n - at, "\r\n\r\n", 4)); at += 4)
        if (write(fd, answer, sizeof answer - 1) < 0)
            return;
}

int main(int argc, char **argv) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), set = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event events[64], event = {.events = EPOLLIN, .data.fd = listener};
    if (argc < 2)
        return 2;
    address.sin_port = htons(atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) {
        perror("httpd: bind");
        return 1;
    }
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(set, events, 64, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listener) {
                serve(events[i].data.fd);
                continue;
            }
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd < 0)
                continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            event.data.fd = fd;
            epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        }
    }
}
