// The probe as a program of a platform: an HTTP server, which carries out the instructions of its requests.
//
// Paths: /do/INSTRUCTION (percent-coded) answers with the instruction's line; /request tells the head of the request as it came;
// /sleep/MS answers later; /stream/MS sends a part at once and the rest later; /log/WORDS writes a line to standard output; all
// others answer 200, or 503 with the option "unready". HTTP/2 with prior knowledge is answered without looking at the fields,
// because the platform's choice of the protocol is all that is asked. One process for each connection; the state of
// the program is `ended`.
// SIGTERM is told on standard output; it ends the program, except with the option "stubborn".

#define _GNU_SOURCE // accept4(2)
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

enum {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_SETTINGS = 4,
    FRAME_PING = 6,
    FLAG_ACK = 1,
    FLAG_END = 1,
    FLAG_HEADERS = 4
};

static char head[65536];
// What came behind the preface of HTTP/2 in the same piece.
static const char *early;
static size_t early_length;
static volatile sig_atomic_t ended;

static void on_term(int signo) {
    (void)signo;
    ended = 1;
}

static void send_all(int fd, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        ssize_t part = send(fd, at, length, MSG_NOSIGNAL);
        if (part <= 0) {
            _exit(0);
        }
        at += part;
        length -= (size_t)part;
    }
}

static void receive_all(int fd, void *bytes, size_t length) {
    char *at = bytes;
    while (length > 0 && early_length > 0) {
        *at++ = *early++;
        early_length--;
        length--;
    }
    while (length > 0) {
        ssize_t part = recv(fd, at, length, 0);
        if (part <= 0) {
            _exit(0);
        }
        at += part;
        length -= (size_t)part;
    }
}

// RFC 9113, section 4.1.
static void send_frame(int fd, int type, int flags, unsigned stream, const void *body, size_t length) {
    unsigned char frame[9] = {0,
                              (unsigned char)(length >> 8),
                              (unsigned char)length,
                              (unsigned char)type,
                              (unsigned char)flags,
                              (unsigned char)(stream >> 24),
                              (unsigned char)(stream >> 16),
                              (unsigned char)(stream >> 8),
                              (unsigned char)stream};
    send_all(fd, frame, sizeof frame);
    send_all(fd, body, length);
}

static void serve_http2(int fd) {
    static const char answer[] = "{\"do\": \"request\", \"head\": \"PRI * HTTP/2.0\"}\n";
    static unsigned char body[1 << 14];
    send_frame(fd, FRAME_SETTINGS, 0, 0, "", 0);
    for (;;) {
        unsigned char frame[9];
        receive_all(fd, frame, sizeof frame);
        size_t length = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        unsigned stream =
            (unsigned)(frame[5] & 0x7f) << 24 | (unsigned)frame[6] << 16 | (unsigned)frame[7] << 8 | frame[8];
        if (length > sizeof body) {
            _exit(0); // larger than SETTINGS_MAX_FRAME_SIZE allows
        }
        receive_all(fd, body, length);
        if (frame[3] == FRAME_SETTINGS && !(frame[4] & FLAG_ACK)) {
            send_frame(fd, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
        } else if (frame[3] == FRAME_PING && !(frame[4] & FLAG_ACK)) {
            send_frame(fd, FRAME_PING, FLAG_ACK, 0, body, length);
        } else if ((frame[3] == FRAME_HEADERS || frame[3] == FRAME_DATA) && frame[4] & FLAG_END) {
            // 0x88: ":status: 200" of the static table (RFC 7541, appendix A).
            send_frame(fd, FRAME_HEADERS, FLAG_HEADERS, stream, "\x88", 1);
            send_frame(fd, FRAME_DATA, FLAG_END, stream, answer, sizeof answer - 1);
        }
    }
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static void percent_decode(char *word) {
    char *out = word;
    for (; *word; word++) {
        if (*word == '%' && digit(word[1]) >= 0 && digit(word[2]) >= 0) {
            *out++ = (char)(digit(word[1]) * 16 + digit(word[2]));
            word += 2;
        } else {
            *out++ = *word;
        }
    }
    *out = 0;
}

static const char *after(const char *path, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(path, prefix, length) == 0 ? path + length : NULL;
}

static void pause_for(const char *milliseconds) { poll(NULL, 0, atoi(milliseconds)); }

// Standard output becomes the connection, so that an instruction prints its answer there.
static void begin(int fd, const char *status) {
    dup2(fd, 1);
    close(fd);
    printf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n", status);
    fflush(stdout);
}

static void answer(int fd, size_t length, const char *option) {
    static char path[sizeof head];
    char *blank = memchr(head, ' ', length);
    size_t size = blank ? strcspn(blank + 1, " \r\n") : 0;
    memcpy(path, blank ? blank + 1 : "", size);
    path[size] = 0;
    const char *rest;
    if ((rest = after(path, "/do/"))) {
        percent_decode(path);
        begin(fd, "200 OK");
        probe_obey(rest);
    } else if (after(path, "/request")) {
        begin(fd, "200 OK");
        printf("{\"do\": \"request\", \"head\": ");
        probe_print_bytes(head, length);
        printf("}\n");
    } else if ((rest = after(path, "/sleep/"))) {
        pause_for(rest);
        begin(fd, "200 OK");
        printf("{\"do\": \"sleep\"}\n");
    } else if ((rest = after(path, "/stream/"))) {
        begin(fd, "200 OK");
        printf("first\n");
        fflush(stdout);
        pause_for(rest);
        printf("last\n");
    } else if ((rest = after(path, "/log/"))) {
        dprintf(1, "%s\n", rest);
        begin(fd, "200 OK");
        printf("{\"do\": \"log\"}\n");
    } else {
        begin(fd, strcmp(option, "unready") == 0 ? "503 Service Unavailable" : "200 OK");
        printf("{\"do\": \"other\"}\n");
    }
    fflush(stdout);
}

static void serve_connection(int fd, const char *option) {
    size_t length = 0;
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_IGN);
    while (length < sizeof head - 1) {
        ssize_t part = recv(fd, head + length, sizeof head - 1 - length, 0);
        if (part <= 0) {
            _exit(0);
        }
        length += (size_t)part;
        head[length] = 0;
        if (length >= strlen(PREFACE) && memcmp(head, PREFACE, strlen(PREFACE)) == 0) {
            early = head + strlen(PREFACE);
            early_length = length - strlen(PREFACE);
            serve_http2(fd);
        }
        char *end = strstr(head, "\r\n\r\n");
        if (end && memcmp(head, "PRI ", 4) != 0) {
            answer(fd, (size_t)(end - head), option);
            _exit(0);
        }
    }
    _exit(0);
}

static int listen_on_port(void) {
    const char *word = getenv("PORT");
    // Both families: a platform may connect to either loopback address.
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, no = 0;
    struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)atoi(word ? word : "8080"))};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = any.sin6_port};
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, (struct sockaddr *)&any, sizeof any) == 0 && listen(fd, 128) == 0) {
            return fd;
        }
        close(fd);
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any4, sizeof any4) || listen(fd, 128)) {
        dprintf(2, "probe: listen on port %s: %s\n", word ? word : "8080", strerror(errno));
        _exit(1);
    }
    return fd;
}

void probe_serve(const char *option) {
    int listener = listen_on_port(), seconds = 0;
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    signal(SIGCHLD, SIG_IGN);
    // The line that probe_obey has begun must not be in the buffer of the processes below.
    printf("}\n");
    fflush(stdout);
    for (;;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        int found = poll(&ready, 1, 1000);
        if (ended == 1) {
            dprintf(1, "signal 15\n");
            if (strcmp(option, "stubborn") != 0) {
                _exit(0);
            }
            ended = 2;
        }
        if (ended && found == 0) {
            dprintf(1, "alive %d\n", ++seconds);
        }
        int fd = found > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0) {
            continue;
        }
        if (fork() == 0) {
            close(listener);
            serve_connection(fd, option);
        }
        close(fd);
    }
}
