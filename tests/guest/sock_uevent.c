// The socket of device events: made, filtered, bound, and quiet without a device that changes: netlink(7),
// socket(7).
#include "guest.h"
#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>
static void *use(void *a) {
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, ~0u)}, wrong[] = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
    struct sock_fprog p = {1, all}, bad = {1, wrong}, none = {0, all};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int zero = 0, value = -1;
    socklen_t n = sizeof value;
    int s = MUST(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
    say("close-on-exec %d", fcntl(s, F_GETFD));
    SHOW(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p));
    SHOW(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &bad, sizeof bad));
    SHOW(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof none));
    SHOW(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &p, 4));
    SHOW(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, (void *)8, sizeof p));
    SHOW(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof zero));
    SHOW(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0));
    SHOW(bind(s, (struct sockaddr *)&kernel, sizeof kernel));
    SHOW(getsockopt(s, SOL_SOCKET, SO_PROTOCOL, &value, &n));
    say("protocol %d", value);
    close(s);
    int other = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    SHOW(setsockopt(other, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p));
    SHOW(setsockopt(other, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof zero));
    SHOW(setsockopt(other, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof zero));
    SHOW(setsockopt(0, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p));
    SHOW(setsockopt(-1, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof p));
    close(other);
    return NULL;
}
int main(int argc, char **argv) {
    use(NULL);
    join(thread(use, NULL)); // two threads share the descriptors
    return 0;
}
