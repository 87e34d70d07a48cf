/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for krun-monitor in tests of the OCI side: reads the boot block, says R, waits for the start
 * FIFO, says O, and executes the program natively. Never installed; a test puts its path into
 * krun.kvm.boot.MONITOR_PATH. Build: gcc -static -O1 -o standin_monitor standin_monitor.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../krun/native/abi/boot.h"

static char block[1 << 20];
static int fd_sync = -1, fd_start = -1, fd_result = -1, fd_exe = -1, fd_kvm = -1, fd_proc = -1, fd_log = -1;
static char exe[4096], state[65536];
static const char *hooks[16];
static int nhooks;

static void say(int fd, char type) {
    char text[128];
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    int n =
        snprintf(text, sizeof(text), "%cstandin=%lld", type, (long long)t.tv_sec * 1000000000LL + t.tv_nsec);
    if (write(fd, text, (size_t)n) < 0)
        _exit(120);
}

static void run_hook(const char *data, char **env) {
    uint32_t head[4];
    char *argv[64], *envp[64];
    int in[2], status = 0;
    const char *path, *p;

    memcpy(head, data, sizeof(head));
    path = p = data + sizeof(head);
    p += strlen(p) + 1;
    for (uint32_t i = 0; i < head[1]; i++, p += strlen(p) + 1)
        argv[i] = (char *)(uintptr_t)p;
    argv[head[1]] = NULL;
    for (uint32_t i = 0; i < head[2]; i++, p += strlen(p) + 1)
        envp[i] = (char *)(uintptr_t)p;
    envp[head[2]] = NULL;
    if (pipe(in) < 0)
        _exit(121);
    if (fork() == 0) {
        dup2(in[0], 0);
        close(in[0]);
        close(in[1]);
        execve(path, argv, head[3] ? envp : env);
        _exit(127);
    }
    close(in[0]);
    if (write(in[1], state, strlen(state)) < 0)
        _exit(122);
    close(in[1]);
    wait(&status);
    if (status) {
        if (write(fd_result,
                  "Ehook\0run\0hook\0"
                  "0\0hook failed",
                  27) < 0)
            _exit(123);
        _exit(1);
    }
}

int main(int argc, char **argv, char **envp) {
    int n = 0, boot;
    struct kr_boot_header head;
    ssize_t size;
    char c;

    (void)argc;
    while (envp[n])
        n++;
    if (n == 0 || strncmp(envp[n - 1], KR_BOOT_ENV, strlen(KR_BOOT_ENV)) != 0)
        return 111;
    boot = atoi(envp[n - 1] + strlen(KR_BOOT_ENV));
    envp[n - 1] = NULL;
    size = pread(boot, block, sizeof(block), 0);
    memcpy(&head, block, sizeof(head));
    if (head.magic != KR_BOOT_MAGIC || head.version != KR_BOOT_VERSION || head.size != size)
        return 112;
    for (size_t at = sizeof(head); at < head.size;) {
        struct kr_boot_record r;
        char *data = block + at + sizeof(r);
        int32_t number;
        uint64_t wide;

        memcpy(&r, block + at, sizeof(r));
        memcpy(&number, data, 4);
        memcpy(&wide, data, 8);
        if (r.tag == KR_BOOT_EXE_PATH)
            memcpy(exe, data, r.len);
        else if (r.tag == KR_BOOT_STATE_JSON)
            memcpy(state, data, r.len);
        else if (r.tag == KR_BOOT_HOOK)
            hooks[nhooks++] = data;
        else if (r.tag == KR_BOOT_FD_KVM)
            fd_kvm = number;
        else if (r.tag == KR_BOOT_FD_EXE)
            fd_exe = number;
        else if (r.tag == KR_BOOT_FD_PROC)
            fd_proc = number;
        else if (r.tag == KR_BOOT_FD_SYNC)
            fd_sync = number;
        else if (r.tag == KR_BOOT_FD_START)
            fd_start = number;
        else if (r.tag == KR_BOOT_FD_RESULT)
            fd_result = number;
        else if (r.tag == KR_BOOT_FD_LOG)
            fd_log = number;
        else if (r.tag == KR_BOOT_RLIMIT_STACK) {
            struct rlimit limit;

            getrlimit(RLIMIT_STACK, &limit);
            limit.rlim_cur = wide;
            setrlimit(RLIMIT_STACK, &limit);
        }
        at += sizeof(r) + ((r.len + 7) & ~7u);
    }
    if (fcntl(fd_kvm, F_GETFD) < 0 || fcntl(fd_exe, F_GETFD) < 0 || fcntl(fd_proc, F_GETFD) < 0)
        return 113;
    close(boot);
    close(fd_kvm);
    close(fd_exe);
    close(fd_proc);
    if (fd_log >= 0)
        close(fd_log);
    fcntl(fd_start, F_SETFD, FD_CLOEXEC);
    fcntl(fd_result, F_SETFD, FD_CLOEXEC);
    if (fd_sync >= 0) {
        say(fd_sync, 'R');
        close(fd_sync);
    }
    if (fd_start >= 0) {
        while (read(fd_start, &c, 1) < 0 && errno == EINTR)
            ;
        close(fd_start);
        for (int i = 0; i < nhooks; i++)
            run_hook(hooks[i], envp);
        say(fd_result, 'O');
        close(fd_result);
    }
    execve(exe, argv, envp);
    fprintf(stderr, "standin: execve %s: %s\n", exe, strerror(errno));
    return 125;
}
