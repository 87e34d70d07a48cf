// PR_GET_TID_ADDRESS: what set_tid_address(2) or CLONE_CHILD_CLEARTID has set, whatever kind of task asks
// (prctl(2)).
#include "guest.h"
#include <linux/sched.h>
#include <sys/prctl.h>
static int word, other;
static char stack[65536] __attribute__((aligned(16)));

static void show(const char *who) {
    uint64_t at = 1;
    if (prctl(PR_GET_TID_ADDRESS, &at) < 0)
        say("%s: %s", who, errno_name(errno)); /* a kernel without CONFIG_CHECKPOINT_RESTORE */
    else
        say("%s: %s", who,
            !at                       ? "none"
            : at == (uint64_t)&word   ? "word"
            : at == (uint64_t)&other  ? "other"
            : at == 0x7ffffffff000    ? "outside"
            : at == 0xdead00000000000 ? "not canonical"
                                      : "?");
}

static int child(void *who) {
    char line[64];
    show(who);
    syscall(SYS_set_tid_address, &other), snprintf(line, sizeof line, "%s, set", (char *)who), show(line);
    syscall(SYS_set_tid_address, 0x7ffffffff000), snprintf(line, sizeof line, "%s, outside", (char *)who),
        show(line);
    if (!strncmp(who, "vm", 2)) { /* its own clone goes to a fork */
        if (!fork())
            show("its fork"), _exit(0);
        wait(NULL);
    }
    syscall(SYS_set_tid_address, 0), snprintf(line, sizeof line, "%s, reset", (char *)who), show(line);
    _exit(0);
}

static void *run(void *who) {
    syscall(SYS_set_tid_address, &other), show("thread, set");
    syscall(SYS_set_tid_address, 0xdead00000000000), show("thread, not canonical");
    syscall(SYS_exit, 0);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        show("after execve");
        return 0;
    }
    syscall(SYS_set_tid_address, &word), show("main");
    SHOW(prctl(PR_GET_TID_ADDRESS, 0x8) < 0), SHOW(prctl(PR_GET_TID_ADDRESS, 0x7fffffffe000) < 0);
    reap("fork", CHILD(child("fork")));
    static const struct {
        const char *who;
        int flags;
    } kinds[] = {{"vm", CLONE_VM | SIGCHLD},
                 {"vm vfork", CLONE_VM | CLONE_VFORK | SIGCHLD},
                 {"vm cleared", CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD},
                 {"vfork cleared", CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD},
                 {"copy cleared", CLONE_CHILD_CLEARTID | SIGCHLD}};
    for (size_t i = 0; i < COUNT(kinds); i++)
        reap(kinds[i].who, (pid_t)MUST(clone(child, stack + sizeof stack, kinds[i].flags,
                                             (void *)kinds[i].who, NULL, NULL, &word)));
    thread(run, NULL);
    pause_ms(30);
    reap("execve", CHILD(execl(argv[0], argv[0], "1", NULL)));
    return wrong;
}
