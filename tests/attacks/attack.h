// What every attack program includes: its time, its end, where the host's canaries lie, whether it runs
// natively.
//
// An attack tries for attack_seconds() at most (or a bounded count) and ends by attack_lost() or
// attack_won(). Whatever it cannot know itself the oracle on the host tells (oracle.py).
//
//   ATTACK_SECONDS   how long it may try (default 5)
//   ATTACK_CANARIES  a directory of the host, outside of the container's root:
//                    secret (mode 0600, root's), public (0644), drop/ (1777): reading a file or making one is
//                    a win
#ifndef ATTACK_H
#define ATTACK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTACK_WON 42
#define ATTACK_WINDOW_END 0x6a0000000000UL // KR_WINDOW_END of krun/native/machine/layout.h

static inline double attack_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double attack_seconds(void) {
    const char *text = getenv("ATTACK_SECONDS");
    return text && *text ? atof(text) : 5;
}

// Whether the time is over; the clock begins with the first call, in each process anew but for forked ones.
static inline int attack_over(void) {
    static double end;
    if (end == 0)
        end = attack_now() + attack_seconds();
    return attack_now() >= end;
}

static inline const char *attack_canary(const char *name) {
    static char path[PATH_MAX];
    const char *folder = getenv("ATTACK_CANARIES");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "/nowhere", name);
    return path;
}

// These two write with one system call and end the process group's leader at once: no buffer, no atexit.
static inline void __attribute__((noreturn, format(printf, 1, 2))) attack_won(const char *format, ...) {
    char line[1024] = "WON: ";
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line + 5, sizeof line - 7, format, ap) + 5;
    va_end(ap);
    if (n > (int)sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    if (write(1, line, (size_t)n) < 0) {
        // The exit status says it, too.
    }
    _exit(ATTACK_WON);
}

static inline void __attribute__((noreturn)) attack_lost(void) {
    if (write(1, "lost\n", 5) < 0) {
        // The exit status says it, too.
    }
    _exit(0);
}

// For what has to be there before the attack can begin: a failure of it is neither won nor lost.
static inline void __attribute__((noreturn)) attack_broken(const char *what) {
    char line[256];
    int n = snprintf(line, sizeof line, "broken: %s: %s\n", what, strerror(errno));
    if (write(1, line, (size_t)n) < 0) {
        // The exit status says it, too.
    }
    _exit(2);
}

// Whether this program runs on the host's processor instead of in the VM: there its stack lies above the
// window.
static inline int attack_is_native(void) {
    volatile char here;
    return (uintptr_t)&here >= ATTACK_WINDOW_END;
}

// First in main() of a program that tries to become the monitor: told by argv or the environment it is not,
// but by where it stands.  It lives on for a moment so that the watcher on the host sees it, too.
static inline void attack_check_native(void) {
    if (attack_is_native()) {
        usleep(200000);
        attack_won("the image's program runs natively, as pid %d", (int)getpid());
    }
}

// A system call without errno, stack protector and TLS, which a relative by CLONE_VM shares with its maker.
static inline long attack_bare(long nr, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(nr)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return nr;
}

// Starts fn(argument) in a child and returns what waitpid() gives for it.
static inline int attack_child(void (*fn)(void *), void *argument) {
    pid_t pid = fork();
    if (pid < 0)
        attack_broken("fork");
    if (pid == 0) {
        fn(argument);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static inline int attack_child_won(int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) == ATTACK_WON;
}

// Enters a landlock domain that handles named pipes only: its rules say nothing of any other file.
static inline void attack_enter_domain(void) {
    uint64_t handled = 1 << 10; // LANDLOCK_ACCESS_FS_MAKE_FIFO
    int set = (int)syscall(444 /* landlock_create_ruleset */, &handled, sizeof handled, 0);
    if (set < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(446 /* landlock_restrict_self */, set, 0) < 0)
        attack_broken("landlock");
    close(set);
}

#endif
