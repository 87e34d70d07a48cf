// What holds a pod's namespaces: waits for the signal that ends it, and reaps what a shared pid namespace
// leaves.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
    (void)signal;
    _exit(0);
}

static void reap(int signal) {
    (void)signal;
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, 0);
    sigaction(SIGINT, &action, 0);
    action.sa_handler = reap;
    action.sa_flags = SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, 0);
    for (;;) {
        pause();
    }
}
