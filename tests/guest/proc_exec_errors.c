// The errors of execve(2): each with its reason, and the caller unharmed.
#include "guest.h"
int main(int argc, char **argv) {
    char *args[] = {"x", NULL}, longer[300];
    memset(longer, 'n', 299), longer[299] = 0;
    close(file_with("noexec", "#!/bin/sh\n")), close(file_with("data", "just text")),
        close(file_with("empty", ""));
    close(file_with("badinterp", "#!/no/such/interpreter\n")), close(file_with("noline", "#!\n")),
        close(file_with("dirinterp", "#!/etc\n"));
    close(file_with("loop", "#!./loop\n")), close(file_with("short", "\177ELF\2\1\1"));
    chmod("data", 0755), chmod("empty", 0755), chmod("badinterp", 0755), chmod("noline", 0755),
        chmod("loop", 0755);
    chmod("short", 0755), chmod("dirinterp", 0755);
    symlink("circle", "circle");
    static const char *const names[] = {"missing", "noexec",   "data",  "empty",     "badinterp",
                                        "noline",  "loop",     "short", "dirinterp", "circle",
                                        ".",       "noexec/x", "",      "/etc"};
    for (size_t i = 0; i < COUNT(names); i++) {
        execve(names[i], args, NULL);
        say("%s: %s", names[i], errno_name(errno));
    }
    execve(longer, args, NULL);
    say("long name: %s", errno_name(errno));
    int fd = MUST(open("busy", O_RDWR | O_CREAT, 0755));
    write(fd, "x", 1);
    execve("busy", args, NULL);
    EXPECT(errno == ETXTBSY || errno == ENOEXEC);
    return wrong;
}
