// A filter that one thread gives to all (SECCOMP_FILTER_FLAG_TSYNC) holds in each of them from seccomp(2)'s return on: for
// threads that make nothing but calls which only ask, and for those that are made meanwhile.
#include "attack.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>

#define REFUSED (SECCOMP_RET_ERRNO | EXDEV)

static const int asked[] = {SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid};
static int installed, begun; // atomic

static long raw(long nr) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(nr) : "rcx", "r11", "memory");
    return r;
}

// Whether the filter holds already decides about the call that begins after it.
static void ask(unsigned i) {
    int late = __atomic_load_n(&installed, __ATOMIC_SEQ_CST);
    int nr = asked[i % (sizeof asked / sizeof asked[0])];
    long r = raw(nr);
    if (late && r != -EXDEV)
        attack_won("call %d gives %ld under a filter that refuses it", nr, r);
}

static void *asks(void *first) {
    unsigned after = 0;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = (unsigned)(uintptr_t)first; after < 200; i++) {
        ask(i);
        after += (unsigned)__atomic_load_n(&installed, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void *once(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 6; i++)
        ask(i);
    return NULL;
}

static void *makes(void *unused) {
    (void)unused;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    for (int after = 0; after < 4; after += __atomic_load_n(&installed, __ATOMIC_SEQ_CST)) {
        pthread_t t;
        if (pthread_create(&t, NULL, once, NULL) == 0)
            pthread_join(t, NULL);
    }
    return NULL;
}

static void try(void *unused) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_geteuid, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getgid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getegid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, REFUSED),
    };
    struct sock_fprog p = {sizeof f / sizeof f[0], f};
    pthread_t t[4];
    (void)unused;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        attack_broken("no_new_privs");
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, i ? asks : makes, (void *)i))
            attack_broken("pthread_create");
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 4)
        sched_yield();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p) != 0)
        attack_broken("seccomp");
    __atomic_store_n(&installed, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

int main(void) {
    while (!attack_over())
        if (attack_child_won(attack_child(try, NULL)))
            _exit(ATTACK_WON);
    attack_lost();
}
