/* A service that calls others by name: GET /HOST/PATH answers with what http://HOST/PATH answers. Built with musl, whose resolver
 * reads /etc/resolv.conf (search, ndots) in a static program, too. */
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The answer of http://host/path, head included, or one line that tells what failed. */
static void call(const char *host, const char *path, char *out, size_t size) {
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(host, "80", &want, &found), fd;
    if (error) {
        snprintf(out, size, "resolve: %s", gai_strerror(error));
        return;
    }
    fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (connect(fd, found->ai_addr, found->ai_addrlen)) {
        snprintf(out, size, "connect: failed");
    } else {
        size_t length = 0;
        ssize_t got;
        dprintf(fd, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
        while ((got = read(fd, out + length, size - 1 - length)) > 0)
            length += got;
        out[length] = 0;
    }
    close(fd);
    freeaddrinfo(found);
}

static void term(int signo) {
    (void)signo;
    _exit(0);
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(atoi(getenv("PORT")))};
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, 64))
        return 5;
    signal(SIGTERM, term);
    for (;;) {
        int fd = accept(listener, 0, 0);
        char request[2048], host[512], path[512], body[8192] = "";
        ssize_t got = read(fd, request, sizeof request - 1);
        request[got > 0 ? got : 0] = 0;
        if (sscanf(request, "GET /%511[^/ ]/%511s", host, path) == 2)
            call(host, path, body, sizeof body);
        dprintf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body),
                body);
        close(fd);
    }
}
