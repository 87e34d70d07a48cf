// cwd, root, fd of directories, ns: links of /proc/self: proc(5).
#include "guest.h"
int main(int argc, char **argv) {
    char cwd[4096], link[4096] = "";
    getcwd(cwd, 4096), readlink("/proc/self/cwd", link, 4095), EXPECT(!strcmp(cwd, link));
    memset(link, 0, 4096), readlink("/proc/self/root", link, 4095), say("%s", link);
    memset(link, 0, 4096), readlink("/proc/self", link, 4095), EXPECT(atoi(link) == getpid());
    memset(link, 0, 4096), readlink("/proc/thread-self", link, 4095),
        EXPECT(atoi(link) == getpid() && strstr(link, "/task/"));
    memset(link, 0, 4096), readlink("/proc/self/ns/uts", link, 4095), say("%.5s", link);
    close(file_with("f", "through cwd")), say("%s", slurp("/proc/self/cwd/f"));
    reap("child",
         CHILD(memset(link, 0, 4096); readlink("/proc/self", link, 4095); EXPECT(atoi(link) == getpid())));
    EXPECT(open("/proc/self/oom_score_adj", O_RDWR) >= 0);
    return wrong;
}
