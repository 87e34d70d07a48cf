// getaddrinfo with numbers, localhost from /etc/hosts, services; getnameinfo back: getaddrinfo(3).
#include "guest.h"
#include <arpa/inet.h>
#include <netdb.h>
int main(int argc, char **argv) {
    struct addrinfo h = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *r;
    char host[100], port[20];
    static const char *const names[] = {"127.0.0.1", "::1", "10.1.2.3", "no number"};
    for (size_t i = 0; i < COUNT(names); i++) {
        int e = getaddrinfo(names[i], "80", &h, &r);
        if (e)
            say("%s: %s", names[i], gai_strerror(e));
        else {
            getnameinfo(r->ai_addr, r->ai_addrlen, host, 100, port, 20, NI_NUMERICHOST | NI_NUMERICSERV);
            say("%s: %s %s, family %d", names[i], host, port, r->ai_family);
        }
    }
    h.ai_flags = 0, h.ai_family = AF_INET;
    say("localhost: %d %s", getaddrinfo("localhost", NULL, &h, &r),
        inet_ntoa(((struct sockaddr_in *)r->ai_addr)->sin_addr));
    return 0;
}
