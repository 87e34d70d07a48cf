// A process of a pid namespace of its own that has the number of a process outside (clone3(2), set_tid):
// neither is taken for the other. krun: host
#include "guest.h"
#include <dirent.h>
#include <linux/sched.h>

static pid_t fork_as(uint64_t flags, pid_t number) {
    struct clone_args args = {.flags = flags,
                              .exit_signal = SIGCHLD,
                              .set_tid = number ? (uintptr_t)&number : 0,
                              .set_tid_size = number ? 1 : 0};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    MUST(pid);
    return pid;
}

// Whether the working directory of process `name` can be seen, and is `path`.
static int is_in(const char *name, const char *path) {
    char link[64], text[4096] = "";
    snprintf(link, sizeof link, "/proc/%s/cwd", name);
    return readlink(link, text, sizeof text - 1) > 0 && strcmp(text, path) == 0;
}

static int threads(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static int parent_is_seen(const char *here) {
    int status = 0;
    char name[16];
    snprintf(name, sizeof name, "%d", (int)getpid());
    pid_t pid = CHILD(_exit(!is_in(name, here)));
    waitpid(pid, &status, 0);
    return status == 0;
}

// In the first process of the new namespace: one with the number of the process outside comes and goes.
static void inside(pid_t outer, const char *here) {
    char name[16];
    snprintf(name, sizeof name, "%d", (int)outer);
    pid_t pid = fork_as(0, outer);
    if (pid == 0) {
        EXPECT(getpid() == outer);
        MUST(chdir("/proc"));
        EXPECT(is_in("self", "/proc"));
        EXPECT(threads() == 1);
        EXPECT(!is_in(name, "/proc"));
        _exit(wrong);
    }
    reap("the process of that number", pid);
    EXPECT(is_in("self", here));
    _exit(wrong);
}

int main(void) {
    char here[4096];
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    EXPECT(is_in("self", here)); // the numbers of /proc are the own ones, and known from now on
    EXPECT(parent_is_seen(here));
    pid_t outer = getpid(), pid = fork_as(CLONE_NEWPID, 0);
    if (pid == 0)
        inside(outer, here);
    reap("the new namespace", pid);
    EXPECT(parent_is_seen(here));
    MUST(unshare(CLONE_NEWPID)); // the same without a flag of the clone
    pid = fork_as(0, 0);
    if (pid == 0)
        inside(outer, here);
    reap("the namespace of the children", pid);
    return wrong;
}
