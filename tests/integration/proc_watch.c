// What a process of uid 0 with docker's default capabilities, outside of any VM, gets to see of the processes
// around it: the kernel's own answer, with no monitor in between. Ends with 42 and a line when it can list
// the descriptors of another process (of that name).
//
// proc_watch SECONDS [NAME]
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DOCKER 0xa80425fbu // CapBnd of a container of docker's

int main(int argc, char **argv) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{.effective = DOCKER, .permitted = DOCKER}};
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    unsigned long looked = 0;

    if (syscall(SYS_capset, &head, sets) < 0)
        return 2;
    while (time(NULL) < end) {
        DIR *proc = opendir("/proc");
        for (struct dirent *e; proc && (e = readdir(proc));) {
            char path[64], name[64] = "";
            if (atoi(e->d_name) <= 0 || atoi(e->d_name) == getpid())
                continue;
            snprintf(path, sizeof path, "/proc/%.20s/fd/0", e->d_name);
            looked++;
            if (readlink(path, name, sizeof name - 1) < 0)
                continue;
            snprintf(path, sizeof path, "/proc/%.20s/comm", e->d_name);
            int fd = open(path, O_RDONLY);
            if (fd < 0 || read(fd, name, sizeof name - 1) <= 0)
                strcpy(name, "(gone)\n");
            name[strcspn(name, "\n")] = 0;
            if (argc > 2 && strcmp(name, argv[2]) != 0)
                continue;
            printf("%s may be looked into: %s\n", e->d_name, name);
            return 42;
        }
        if (proc)
            closedir(proc);
    }
    printf("looked %lu times\n", looked);
    return looked ? 0 : 3;
}
