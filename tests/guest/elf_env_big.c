// An environment of 1 MiB and 4000 arguments go through execve(2).
#include "guest.h"
extern char **environ;
int main(int argc, char **argv) {
    if (argc > 1) {
        size_t bytes = 0, sum = 0, args = 0;
        for (char **e = environ; *e; e++)
            for (char *p = *e; *p; p++, bytes++)
                sum = sum * 31 + *p;
        for (int i = 1; i < argc; i++)
            args += strlen(argv[i]);
        say("argc %d, argument bytes %zu, environment bytes %zu, sum %zx", argc, args, bytes, sum);
        return 0;
    }
    char **args = calloc(4002, sizeof(char *)), **env = calloc(18, sizeof(char *));
    args[0] = "big";
    for (int i = 1; i <= 4000; i++)
        asprintf(&args[i], "argument %d", i);
    for (int i = 0; i < 16; i++) {
        env[i] = malloc(65536);
        memset(env[i], 'a' + i, 65535), env[i][65535] = 0, env[i][1] = '=';
    }
    execve(argv[0], args, env);
    return 9;
}
