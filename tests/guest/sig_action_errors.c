// sigaction(2): bad numbers, SIGKILL, old action returned with its flags and mask.
#include "guest.h"
static void h(int s) {}
int main(int argc, char **argv) {
    struct sigaction a = {.sa_handler = h, .sa_flags = SA_RESTART | SA_NODEFER | SA_ONSTACK}, b;
    sigaddset(&a.sa_mask, SIGHUP), sigaddset(&a.sa_mask, SIGKILL);
    TRY(sigaction(SIGKILL, &a, NULL));
    TRY(sigaction(SIGSTOP, &a, NULL));
    TRY(sigaction(SIGKILL, NULL, &b));
    TRY(sigaction(65, &a, NULL));
    TRY(sigaction(0, &a, NULL));
    TRY(sigaction(SIGUSR1, &a, NULL));
    TRY(sigaction(SIGUSR1, NULL, &b));
    say("handler %d, flags %x, HUP %d, KILL %d", b.sa_handler == h, b.sa_flags & ~0x04000000,
        sigismember(&b.sa_mask, SIGHUP), sigismember(&b.sa_mask, SIGKILL));
    TRY(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 16));
    return 0;
}
