// execve(2) of a root process whose effective ids are not the real ones: ids, capabilities, auxv. Before
// Linux 6.16 the kernel answers differently with no_new_privs, which the monitor has. krun: host
#include "guest.h"
#include <sys/auxv.h>

static void show(const char *what) {
    uid_t r, e, s;
    gid_t rg, eg, sg;
    MUST(getresuid(&r, &e, &s));
    MUST(getresgid(&rg, &eg, &sg));
    say("%s: %d %d %d, %d %d %d, fs %d %d, auxv %lu %lu %lu %lu %lu", what, r, e, s, rg, eg, sg,
        (int)syscall(SYS_setfsuid, -1), (int)syscall(SYS_setfsgid, -1), getauxval(AT_UID), getauxval(AT_EUID),
        getauxval(AT_GID), getauxval(AT_EGID), getauxval(AT_SECURE));
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "CapPrm", 6) || !strncmp(line, "CapEff", 6) || !strncmp(line, "CapAmb", 6) ||
            !strncmp(line, "CapInh", 6))
            say("%.6s %s", line, strcspn(line + 8, "123456789abcdef") < 16 ? "some" : "none");
    if (f)
        fclose(f);
}

static void with(const char *what, int uid, int gid) {
    reap(what, CHILD({
             MUST(setresgid(-1, gid, -1));
             MUST(setresuid(-1, uid, -1));
             execl("/proc/self/exe", "x", what, NULL);
             TRY(-1);
         }));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        show(argv[1]);
        return 0;
    }
    with("both", 7, 8);
    with("the user", 7, 0);
    with("the group", 0, 8);
    with("none", 0, 0);
    return 0;
}
