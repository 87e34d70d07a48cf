// fexecve(3) of a descriptor and of a memfd; scripts through /dev/fd; close-on-exec makes scripts fail.
#include "guest.h"
int main(int argc, char **argv) {
    char *env[] = {NULL};
    if (argc > 1)
        return say("ran as %s", argv[1]), 12;
    int fd = MUST(open(argv[0], O_RDONLY | O_CLOEXEC)), m = MUST(memfd_create("program", MFD_CLOEXEC));
    reap("descriptor", CHILD(fexecve(fd, (char *[]){"x", "descriptor", NULL}, env)));
    char block[65536];
    for (ssize_t n; (n = read(fd, block, sizeof(block))) > 0;)
        write(m, block, n);
    reap("memfd", CHILD({
             int ro = open("/proc/self/fd/5",
                           O_RDONLY); // a writable descriptor would give ETXTBSY for other files
             (void)ro;
             fexecve(m, (char *[]){"x", "memfd", NULL}, env);
             say("%s", errno_name(errno));
         }));
    int s = MUST(memfd_create("script", 0)), t = MUST(memfd_create("script", MFD_CLOEXEC));
    write(s, "#!/bin/sh\nexit 5\n", 17), write(t, "#!/bin/sh\nexit 5\n", 17);
    reap("script", CHILD(fexecve(s, (char *[]){"x", NULL}, env); _exit(errno)));
    reap("script with close-on-exec",
         CHILD(fexecve(t, (char *[]){"x", NULL}, env); say("%s", errno_name(errno))));
    return 0;
}
