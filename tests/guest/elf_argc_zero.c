// execve with an empty argument vector: the kernel (5.18 and later) makes it one empty string: execve(2).
#include "guest.h"
int main(int argc, char **argv) {
    if (argc == 1 && !argv[0][0])
        return say("argc %d, argv[0] empty, argv[1] %s", argc, argv[1] ? "set" : "null"), 0;
    char *none[] = {NULL}, *env[] = {NULL};
    execve("/proc/self/exe", none, env);
    return 9;
}
