// A filter for all threads (SECCOMP_FILTER_FLAG_TSYNC) that was installed while another thread was in execve has to be in force in
// the new program.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>

static volatile int *installed;
static int wait_for;

static void *install(void *unused) {
    (void)unused;
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {sizeof f / sizeof *f, f};
    for (volatile int i = 0; i < wait_for; i++)
        ;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p) == 0)
        *installed = 1;
    for (;;)
        pause();
    return NULL;
}

static void one(void *unused) {
    (void)unused;
    pthread_t thread;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (pthread_create(&thread, NULL, install, NULL))
        attack_broken("pthread_create");
    execl("/attack", "attack", "begun", NULL);
}

int main(int argc, char **argv) {
    attack_check_native();
    (void)argv;
    installed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 60, 0);
    if (argc > 1) {
        if (installed != MAP_FAILED && *installed && syscall(SYS_getppid) > 0)
            attack_won("the filter is gone");
        return 0;
    }
    int fd = (int)syscall(SYS_memfd_create, "installed", 0);
    if (fd < 0 || ftruncate(fd, 4096) || dup2(fd, 60) < 0)
        attack_broken("memfd");
    installed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 60, 0);
    for (int i = 0; !attack_over(); i++) {
        wait_for = i * 37 % 20000;
        *installed = 0;
        if (attack_child_won(attack_child(one, NULL)))
            attack_won("a filter was lost in round %d", i);
    }
    attack_lost();
}
