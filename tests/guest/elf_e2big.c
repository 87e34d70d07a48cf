// Too large an argument, too large a vector: E2BIG, and the caller goes on: execve(2).
#include "guest.h"
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "end"))
        return say("exec after E2BIG works"), 0;
    char *huge = malloc(131073), **many = calloc(3002, sizeof(char *));
    memset(huge, 'x', 131072), huge[131072] = 0;
    char *one[] = {"p", huge, NULL};
    SHOW(execv(argv[0], one)); // MAX_ARG_STRLEN counts the final zero
    for (int i = 0; i < 3000; i++)
        many[i] = huge + 131072 - 8000;
    SHOW(execv(argv[0], many)); // 24 MB against a quarter of the stack limit
    char *end[] = {"p", "end", NULL};
    execv(argv[0], end);
    return 9;
}
