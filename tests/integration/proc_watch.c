// What a process outside of any VM gets to see of the processes around it: the kernel's own answer, with no monitor in
// between. UID 0 has docker's default capabilities, another UID has none. Ends with 42 and a line when the process can list
// the descriptors of another process (of that name), open its memory, or trace it.
//
// proc_watch SECONDS UID [NAME]
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DOCKER 0xa80425fbu // CapBnd of a container of docker's

static int become(uid_t uid) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{.effective = DOCKER, .permitted = DOCKER}};
    if (uid)
        return setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0;
    return syscall(SYS_capset, &head, sets) < 0;
}

// How the process can be looked into; NULL: not at all.
static const char *seen(const char *pid) {
    // maps first: its open waits for the end of an execve (mm_access() in kernel/fork.c), which the others do not.
    static const char *const file[] = {"maps", "environ", "auxv", "mem"};
    char path[64], text[64];
    for (unsigned i = 0; i < sizeof file / sizeof *file; i++) {
        snprintf(path, sizeof path, "/proc/%.20s/%s", pid, file[i]);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        // What is left of a process that has ended may be opened, and shows nothing: the end of the file. Living memory has
        // nothing at this address: EIO.
        int memory = strcmp(file[i], "mem") == 0;
        ssize_t n = memory ? pread(fd, text, 1, 4096) : read(fd, text, sizeof text);
        int nothing_there = n < 0 && errno == EIO;
        close(fd);
        if (n > 0 || (memory && nothing_there))
            return file[i];
    }
    snprintf(path, sizeof path, "/proc/%.20s/fd/0", pid);
    if (readlink(path, text, sizeof text) >= 0)
        return "fd";
    if (ptrace(PTRACE_SEIZE, atoi(pid), 0, 0) == 0)
        return "ptrace";
    return NULL;
}

int main(int argc, char **argv) {
    time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
    unsigned long looked = 0;

    if (become(argc > 2 ? (uid_t)atoi(argv[2]) : 0))
        return 2;
    while (time(NULL) < end) {
        DIR *proc = opendir("/proc");
        for (struct dirent *e; proc && (e = readdir(proc));) {
            char path[64], name[64] = "";
            if (atoi(e->d_name) <= getpid()) // older than the eyes, or no process
                continue;
            looked++;
            const char *how = seen(e->d_name);
            if (!how)
                continue;
            snprintf(path, sizeof path, "/proc/%.20s/comm", e->d_name);
            int fd = open(path, O_RDONLY);
            if (fd < 0 || read(fd, name, sizeof name - 1) <= 0)
                strcpy(name, "(gone)\n");
            name[strcspn(name, "\n")] = 0;
            if (argc > 3 && strcmp(name, argv[3]) != 0)
                continue;
            printf("%s may be looked into (%s): %s\n", e->d_name, how, name);
            return 42;
        }
        if (proc)
            closedir(proc);
    }
    printf("looked %lu times\n", looked);
    return looked ? 0 : 3;
}
