// Scripts: interpreter line with one argument, spaces, a script as interpreter, long lines: execve(2).
#include "guest.h"
static void script(const char *name, const char *format, const char *fill) {
    char text[1000];
    sprintf(text, format, fill);
    close(file_with(name, text));
    chmod(name, 0755);
}
int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 1; i < argc; i++)
            say("  %d %s", i, strrchr(argv[i], '/') == argv[i] + strlen(argv[i]) - 2 ? "path" : argv[i]);
        return argc;
    }
    static const char *const lines[] = {"#!%s\n", "#! %s  one argument  \n", "#!%s", "#!\t%s\tx\n"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        script("./s", lines[i], argv[0]);
        reap("script", CHILD(execl("./s", "zero", "a", "b c", NULL)));
    }
    script("t", "#!%s second\n", "./s");
    reap("nested", CHILD(execl("./t", "zero", "last", NULL)));
    script("sh", "#!/bin/sh\necho shell: \"$0\" \"$@\"\nexit 6\n", "");
    reap("shell", CHILD(execl("./sh", "zero", "p", "q r", NULL)));
    return 0;
}
