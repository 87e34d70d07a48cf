/* A server for the tests of krun serve: tells of itself over HTTP/1.1, one connection at a time. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void term(int signo) {
    (void)signo;
    if (write(1, "terminated\n", 11) < 0)
        _exit(4);
    _exit(3);
}

static void tell_stat(const char *path, char *out, size_t size) {
    struct stat st;
    if (lstat(path, &st)) {
        snprintf(out, size, "none");
        return;
    }
    char kind = S_ISDIR(st.st_mode)    ? 'd'
                : S_ISREG(st.st_mode)  ? 'f'
                : S_ISSOCK(st.st_mode) ? 's'
                : S_ISCHR(st.st_mode)  ? 'c'
                                       : '?';
    snprintf(out, size, "%c%04o", kind, st.st_mode & 07777);
}

static void tell_write(const char *path, char *out, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, "x", 1) != 1)
        snprintf(out, size, "error %d", errno);
    else
        snprintf(out, size, "ok");
    if (fd >= 0)
        close(fd);
}

/* connect/ADDRESS/PORT: what a TCP connection meets, within 2 s. */
static void tell_connect(char *path, char *out, size_t size) {
    char *port = strchr(path, '/');
    *port++ = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, path, &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    struct sockaddr_in own = {0};
    socklen_t length = sizeof own;
    char text[64] = "";
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        snprintf(out, size, "error %d", errno);
    else if (shutdown(fd, SHUT_WR) || read(fd, text, sizeof text - 1) < 0 ||
             getsockname(fd, (struct sockaddr *)&own, &length))
        snprintf(out, size, "error %d after", errno);
    else
        snprintf(out, size, "%s from %s", text, inet_ntoa(own.sin_addr));
    close(fd);
}

/* frame/HEX: sends an Ethernet frame on eth0. */
static void tell_frame(const char *hex, char *out, size_t size) {
    unsigned char frame[1024];
    size_t length = 0;
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("eth0")};
    while (length < sizeof frame && sscanf(hex + 2 * length, "%2hhx", frame + length) == 1)
        length++;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    ssize_t sent = fd < 0 ? -1 : sendto(fd, frame, length, 0, (struct sockaddr *)&to, sizeof to);
    snprintf(out, size, "%zd", sent < 0 ? (ssize_t)-errno : sent);
    if (fd >= 0)
        close(fd);
}

static void answer(char *path, char *out, size_t size) {
    out[0] = 0;
    if (!strcmp(path, "/env")) {
        for (char **entry = environ; *entry; entry++) {
            strncat(out, *entry, size - strlen(out) - 2);
            strcat(out, "\n");
        }
    } else if (!strcmp(path, "/uid")) {
        snprintf(out, size, "%u", geteuid());
    } else if (!strcmp(path, "/stdin")) {
        char byte;
        snprintf(out, size, read(0, &byte, 1) == 0 ? "eof" : "open");
    } else if (!strncmp(path, "/stat/", 6)) {
        tell_stat(path + 5, out, size);
    } else if (!strncmp(path, "/write/", 7)) {
        tell_write(path + 6, out, size);
    } else if (!strncmp(path, "/symlink/", 9)) {
        char *target = strchr(path, '=');
        *target++ = 0;
        snprintf(out, size, symlink(target, path + 8) ? "error" : "ok");
    } else if (!strncmp(path, "/connect/", 9)) {
        tell_connect(path + 9, out, size);
    } else if (!strncmp(path, "/frame/", 7)) {
        tell_frame(path + 7, out, size);
    } else if (!strncmp(path, "/read/", 6)) {
        int fd = open(path + 5, O_RDONLY);
        ssize_t got = fd < 0 ? -1 : read(fd, out, size - 1);
        out[got < 0 ? 0 : got] = 0;
        if (fd >= 0)
            close(fd);
    }
}

/* A response without an end: a chunk every 100 ms, until the peer is gone. */
static void stream(int fd) {
    signal(SIGPIPE, SIG_IGN);
    dprintf(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (dprintf(fd, "4\r\nmore\r\n") > 0)
        usleep(100000);
}

/* An upgrade: what comes goes back. */
static void tunnel(int fd) {
    char data[256];
    ssize_t got;
    dprintf(fd, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    while ((got = read(fd, data, sizeof data)) > 0 && write(fd, data, got) == got)
        ;
}

static int serve(void) {
    const char *port = getenv("PORT");
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port ? atoi(port) : 8080)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64))
        return 5;
    for (;;) {
        int fd = accept(listener, 0, 0);
        char request[4096], body[16384], path[2048];
        ssize_t got = read(fd, request, sizeof request - 1);
        request[got > 0 ? got : 0] = 0;
        if (sscanf(request, "GET %2047s", path) == 1) {
            if (!strcmp(path, "/hang") && write(1, "it sleeps\n", 10) == 10)
                sleep(1000);
            if (!strncmp(path, "/say/", 5))
                dprintf(1, "%s\n", path + 5);
            if (!strcmp(path, "/stream"))
                stream(fd);
            if (!strcmp(path, "/tunnel"))
                tunnel(fd);
            answer(path, body, sizeof body);
            dprintf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body),
                    body);
        }
        close(fd);
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "serve";
    if (!strcmp(how, "fail")) {
        fprintf(stderr, "X marks\n");
        return 7;
    }
    if (!strcmp(how, "last-word")) {
        FILE *file = fopen("/dev/termination-log", "w");
        fprintf(file, "from the file");
        fclose(file);
        printf("from the log\n");
        return 9;
    }
    if (!strcmp(how, "daemon")) {
        /* A child that keeps standard output open after its parent's end. */
        if (fork() == 0)
            sleep(1000);
        printf("left");
        return 4;
    }
    if (!strcmp(how, "copy")) {
        char data[65536];
        for (ssize_t got; (got = read(0, data, sizeof data)) > 0;)
            for (ssize_t done = 0; done < got;)
                done += write(1, data + done, got - done);
        return 5;
    }
    if (!strcmp(how, "terminal")) {
        /* What each line of input finds of the terminal. */
        char line[64];
        while (fgets(line, sizeof line, stdin)) {
            struct winsize size = {0};
            ioctl(0, TIOCGWINSZ, &size);
            printf("%d %s %dx%d\n", isatty(0) && isatty(1) && isatty(2), getenv("TERM"), size.ws_col,
                   size.ws_row);
            fflush(stdout);
        }
        return 6;
    }
    if (!strcmp(how, "sleep"))
        return sleep(1000) ? 1 : 0;
    if (!strcmp(how, "flood"))
        for (int i = 0;; i++)
            printf("%d%s", i, i % 1000 ? "\n" : "a longer line without an end");
    if (!strcmp(how, "bomb"))
        for (;;)
            if (fork() < 0) {
                if (write(1, "no more\n", 8) < 0)
                    return 1;
                sleep(1);
            }
    if (!strcmp(how, "eat"))
        for (;;) {
            char *memory = malloc(1 << 20);
            memset(memory, 1, 1 << 20);
        }
    signal(SIGTERM, strcmp(how, "ignore-term") ? term : SIG_IGN);
    return serve();
}
