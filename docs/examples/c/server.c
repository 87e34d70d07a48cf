/* An HTTP server in C: a thread for each connection, one request on each. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *env(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* The length of the request's head, 0 where the client closed before its end or the head is too long. */
static size_t read_head(int fd, char *head, size_t room)
{
    size_t have = 0;
    while (have + 1 < room) {
        ssize_t got = read(fd, head + have, room - 1 - have);
        if (got <= 0)
            return 0;
        have += (size_t)got;
        head[have] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return have;
    }
    return 0;
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char head[16384], body[512], answer[1024];
    if (read_head(fd, head, sizeof head)) {
        int length = snprintf(body, sizeof body, "Hello %.200s, from C, %.200s\n", env("TARGET", "World"),
                              env("K_REVISION", "-"));
        int known = !strncmp(head, "GET ", 4);
        int all = snprintf(answer, sizeof answer,
                           "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
                           "Connection: close\r\n\r\n%s",
                           known ? "200 OK" : "405 Method Not Allowed", known ? length : 0, known ? body : "");
        for (int done = 0; done < all;) {
            ssize_t put = write(fd, answer + done, (size_t)(all - done));
            if (put <= 0)
                break;
            done += (int)put;
        }
        /* A close with unread data would reset the connection before the client has the answer. */
        shutdown(fd, SHUT_WR);
        while (read(fd, head, sizeof head) > 0)
            ;
    }
    close(fd);
    return NULL;
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(void)
{
    /* The first process of a container gets no signal that it does not handle. */
    signal(SIGTERM, end);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_port = htons((uint16_t)atoi(env("PORT", "8080"))),
                                   .sin6_addr = IN6ADDR_ANY_INIT};
    int listener = socket(AF_INET6, SOCK_STREAM, 0);
    int on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 128)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd))
            close(fd);
        else
            pthread_detach(thread);
    }
}
