/* SPDX-License-Identifier: Apache-2.0
 *
 * What a monitor that was taken over could do: makes a system call from inside another process, by ptrace(2),
 * as the host's root. The process is stopped at a SYSCALL instruction of its own, makes the call with its own
 * credentials and under its own filters, and goes on as if nothing had been.
 *
 * inject PID NR [ARGUMENT...]: prints the result, or "killed SIGNAL". Numbers as strtoull(3) takes them.
 * Build: gcc -static -O1 -o inject inject.c
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int argc, char **argv) {
    struct user_regs_struct before, regs;
    int status;
    if (argc < 3)
        return fprintf(stderr, "usage: inject PID NR [ARGUMENT...]\n"), 2;
    pid_t pid = atoi(argv[1]);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
        return fail("attach");
    unsigned long long at = 0;
    for (int tries = 0; !at; tries++) {
        if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0 || waitpid(pid, &status, __WALL) < 0 ||
            !WIFSTOPPED(status))
            return fail("stop");
        if (ptrace(PTRACE_GETREGS, pid, 0, &before) < 0)
            return fail("registers");
        /* Stopped in a call: behind its instruction, or at it when the kernel is to make the call again. */
        for (unsigned long long rip = before.rip; !at && rip >= before.rip - 2; rip -= 2)
            if ((ptrace(PTRACE_PEEKTEXT, pid, rip, 0) & 0xffff) == 0x050f)
                at = rip;
        if (at)
            break;
        if (tries == 1000)
            return fail("not in a system call");
        ptrace(PTRACE_CONT, pid, 0, 0);
        usleep(10000);
    }
    unsigned long long a[6] = {0};
    for (int i = 3; i < argc && i < 9; i++)
        a[i - 3] = strtoull(argv[i], NULL, 0);
    regs = before;
    regs.rip = at;
    regs.orig_rax = -1ULL; /* no call to be made again */
    regs.rax = strtoull(argv[2], NULL, 0);
    regs.rdi = a[0], regs.rsi = a[1], regs.rdx = a[2], regs.r10 = a[3], regs.r8 = a[4], regs.r9 = a[5];
    if (ptrace(PTRACE_SETREGS, pid, 0, &regs) < 0 || ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0)
        return fail("call");
    for (;;) {
        if (waitpid(pid, &status, __WALL) < 0)
            return fail("wait");
        if (WIFSIGNALED(status) || WIFEXITED(status)) {
            printf("killed %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
            return 0;
        }
        if (status >> 16 == 0 && WSTOPSIG(status) == SIGTRAP)
            break;
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0); /* an event on the way */
    }
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
        return fail("result");
    printf("%lld\n", (long long)regs.rax);
    before.rax =
        before.orig_rax != -1ULL && (long long)before.rax >= 0 ? (unsigned long long)-EINTR : before.rax;
    if (ptrace(PTRACE_SETREGS, pid, 0, &before) < 0 || ptrace(PTRACE_DETACH, pid, 0, 0) < 0)
        return fail("detach");
    return 0;
}
