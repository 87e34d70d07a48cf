// Arguments and environment arrive byte for byte: execve(2).
// krun: static musl
#include "guest.h"
extern char **environ;
int main(int argc, char **argv) {
    if (argc == 1) {
        char *args[] = {"zero", "", " two words ", "\xc3\xa4\xff\x01", "-x", "\n", NULL},
             *env[] = {"A=", "B=b b", "=C", "none", NULL};
        execve(argv[0], args, env);
        return 9;
    }
    for (int i = 0; i < argc; i++) {
        char hex[128] = "";
        for (char *p = argv[i]; *p; p++)
            sprintf(hex + strlen(hex), "%02x", (unsigned char)*p);
        say("argv[%d] %s", i, hex);
    }
    for (char **e = environ; *e; e++)
        say("env [%s]", *e);
    return 0;
}
