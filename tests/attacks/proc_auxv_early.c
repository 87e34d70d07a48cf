// A monitor of a user without capabilities can be looked at from its execve until its first system call, and one that
// `krun exec` starts is on no board by then. Two texts of the kernel's tell where it lies: the auxiliary vector and stat.
// Won: an address of the monitor's.
#include "attack.h"
#include <elf.h>

static int newest = 1;

static void look(int pid) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/auxv", pid);
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        if (errno != ENOENT && pid > newest)
            newest = pid;
        return;
    }
    Elf64_auxv_t aux[64];
    ssize_t n = read(fd, aux, sizeof aux);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof aux[0]; i++)
        if (aux[i].a_type == AT_ENTRY && aux[i].a_un.a_val >= ATTACK_WINDOW_END)
            attack_won("process %d enters at 0x%lx", pid, (unsigned long)aux[i].a_un.a_val);
    close(fd);
}

// Fields 26 to 30 and 45 to 51 are addresses (proc_pid_stat(5)).
static void look_at_stat(int pid) {
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *p = strrchr(text, ')');
    for (int field = 2; p && (p = strchr(p + 1, ' '));) {
        field++;
        unsigned long value = strtoul(p + 1, NULL, 10);
        if (((field >= 26 && field <= 30) || (field >= 45 && field <= 51)) && value >= ATTACK_WINDOW_END &&
            value != ~0UL)
            attack_won("field %d of the stat of process %d is 0x%lx", field, pid, value);
    }
}

int main(void) {
    newest = getpid();
    while (!attack_over()) {
        for (int i = 0; i < 20; i++) {
            look_at_stat(newest);
            look(newest);
        }
        for (int i = 1; i < 4; i++)
            look(newest + i);
    }
    attack_lost();
}
