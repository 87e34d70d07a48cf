// A server with epoll and sixty clients in threads; every byte comes back: epoll(7), accept(2).
// krun: timeout=60
#include "guest.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
static struct sockaddr_in a = {.sin_family = AF_INET};
static void *client(void *x) {
    long bad = 0;
    for (int k = 0; k < 5; k++) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        char b[8] = "";
        bad += connect(s, (void *)&a, sizeof(a)) != 0;
        for (int i = 0; i < 10; i++)
            bad += send(s, "request", 7, 0) != 7 || recv(s, b, 7, MSG_WAITALL) != 7 || strcmp(b, "request");
        close(s);
    }
    return (void *)bad;
}
int main(int argc, char **argv) {
    socklen_t n = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0), e = epoll_create1(0), closed = 0, clients = scaled(20);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK), bind(l, (void *)&a, n), getsockname(l, (void *)&a, &n),
    listen(l, 100);
    epoll_ctl(e, EPOLL_CTL_ADD, l, &(struct epoll_event){EPOLLIN, {.fd = l}});
    pthread_t t[60];
    for (int i = 0; i < clients; i++)
        t[i] = thread(client, NULL);
    while (closed < clients * 5) {
        struct epoll_event v[16];
        int k = epoll_wait(e, v, 16, 5000);
        if (k <= 0)
            return say("stuck after %d", closed), 1;
        for (int i = 0; i < k; i++) {
            char b[100];
            if (v[i].data.fd == l) {
                int s = accept4(l, NULL, NULL, SOCK_NONBLOCK);
                epoll_ctl(e, EPOLL_CTL_ADD, s, &(struct epoll_event){EPOLLIN, {.fd = s}});
                continue;
            }
            ssize_t got = recv(v[i].data.fd, b, sizeof(b), 0);
            if (got > 0)
                send(v[i].data.fd, b, got, 0);
            else if (got == 0)
                close(v[i].data.fd), closed++;
        }
    }
    long bad = 0;
    for (int i = 0; i < clients; i++)
        bad += (long)join(t[i]);
    say("wrong %ld", bad);
    return 0;
}
