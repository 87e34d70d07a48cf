// An execve under a file size limit of zero: nothing on the way there may count as a file, nor raise SIGXFSZ.
#include "guest.h"

int main(int argc, char **argv) {
    if (argc > 1) {
        say("executed");
        return wrong;
    }
    for (rlim_t limit = 0; limit <= 1000; limit += 1000) {
        int out[2], status; // a pipe: output to a file would meet the limit itself
        pipe(out);
        pid_t pid = fork();
        if (!pid) {
            struct rlimit r = {limit, limit};
            setrlimit(RLIMIT_FSIZE, &r);
            dup2(out[1], 1);
            execl("/proc/self/exe", argv[0], "again", NULL);
            _exit(3);
        }
        waitpid(pid, &status, 0);
        close(out[1]);
        char text[64] = "";
        read(out[0], text, sizeof text - 1);
        close(out[0]);
        say("limit %d: status %x, %s", (int)limit, status, text);
    }
    return wrong;
}
