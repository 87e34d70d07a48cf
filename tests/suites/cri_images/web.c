// web PORT: answers every HTTP request with one page. Its pid stands in /var/run/nginx.pid, where critest
// looks for it.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const char page[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 80)};
    char request[4096];
    int yes = 1, server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 64)) {
        perror("web");
        return 1;
    }
    FILE *file = fopen("/var/run/nginx.pid", "w");
    if (file) {
        fprintf(file, "%d\n", getpid());
        fclose(file);
    }
    for (;;) {
        int client = accept(server, 0, 0);
        if (client < 0) {
            continue;
        }
        size_t have = 0;
        while (have < sizeof request - 1) {
            ssize_t got = read(client, request + have, sizeof request - 1 - have);
            if (got <= 0) {
                break;
            }
            have += got;
            request[have] = 0;
            if (strstr(request, "\r\n\r\n")) {
                break;
            }
        }
        if (write(client, page, sizeof page - 1) < 0) {
            perror("web");
        }
        close(client);
    }
}
