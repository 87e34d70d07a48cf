/* SPDX-License-Identifier: Apache-2.0
 * An echo server with epoll, and its load (echo.py): echo server PORT, echo load PORT CLIENTS SECONDS BYTES.
 * The server ends with its last connection. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536

static char buffer[MOST];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void failed(const char *what) {
    perror(what);
    exit(1);
}

static void watch(int epoll, int fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        failed("epoll_ctl");
}

static void report(long requests) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                 (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    printf("%ld %.2f\n", requests, cpu * 1e6 / (double)requests);
}

static void server(const struct sockaddr_in *a) {
    int epoll = epoll_create1(0), one = 1, open = 0, l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), c;
    long requests = 0;
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(l, (const void *)a, sizeof *a) < 0 || listen(l, 512) < 0)
        failed("listen");
    watch(epoll, l);
    for (;;) {
        struct epoll_event e[128];
        int n = epoll_wait(epoll, e, 128, -1);
        for (int i = 0; i < n; i++) {
            int fd = e[i].data.fd;
            if (fd == l) {
                while ((c = accept4(l, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    watch(epoll, c);
                    open++;
                }
                continue;
            }
            ssize_t got = read(fd, buffer, sizeof buffer);
            if (got < 0 && errno == EAGAIN)
                continue;
            if (got > 0) {
                if (write(fd, buffer, (size_t)got) != got)
                    failed("write");
                requests++;
                continue;
            }
            close(fd);
            if (--open == 0) {
                report(requests);
                return;
            }
        }
    }
}

static int client(const struct sockaddr_in *a) {
    int one = 1;
    for (int tries = 0; tries < 500; tries++, usleep(10000)) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c, (const void *)a, sizeof *a) == 0) {
            fcntl(c, F_SETFL, O_NONBLOCK);
            setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            return c;
        }
        close(c);
    }
    failed("connect");
    return -1;
}

static void load(const struct sockaddr_in *a, int clients, double seconds, long bytes) {
    static long got[4096];
    int epoll = epoll_create1(0), fds[1000];
    long answers = 0;
    for (int i = 0; i < clients; i++)
        watch(epoll, fds[i] = client(a));
    double begin = now(), t;
    for (int i = 0; i < clients; i++)
        if (write(fds[i], buffer, (size_t)bytes) != bytes)
            failed("write");
    while ((t = now()) - begin < seconds) {
        struct epoll_event e[128];
        int n = epoll_wait(epoll, e, 128, 5000);
        if (n <= 0)
            failed("no answer");
        for (int i = 0; i < n; i++) {
            int fd = e[i].data.fd;
            ssize_t r = read(fd, buffer, sizeof buffer);
            if (r <= 0)
                failed("read");
            if ((got[fd] += r) < bytes)
                continue;
            got[fd] = 0;
            answers++;
            if (write(fd, buffer, (size_t)bytes) != bytes)
                failed("write");
        }
    }
    printf("%.0f\n", (double)answers / (t - begin));
}

int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (argc < 3)
        return 2;
    a.sin_port = htons((uint16_t)atoi(argv[2]));
    if (argc == 3)
        server(&a);
    else if (argc == 6 && atoi(argv[3]) <= 1000 && atol(argv[5]) <= MOST)
        load(&a, atoi(argv[3]), atof(argv[4]), atol(argv[5]));
    else
        return 2;
    return 0;
}
