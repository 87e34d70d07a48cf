// Shared by every program of the corpus: one line per observation, no stdio, nothing machine-dependent.
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline))
#define PAGE 4096UL
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int wrong UNUSED; // set by a failed EXPECT; programs end with `return wrong;`

// Print one line. Written at once, so that nothing is lost or doubled by fork, exec or a fatal signal.
static UNUSED __attribute__((format(printf, 1, 2))) void say(const char *format, ...) {
    static int lines; // a program that goes wrong must not fill the disk
    char line[4096];
    va_list list;
    if (++lines > 5000)
        _exit(97);
    va_start(list, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, list);
    va_end(list);
    if (n > (int)sizeof(line) - 2)
        n = sizeof(line) - 2;
    line[n++] = '\n';
    for (int at = 0; at < n;) {
        ssize_t done = write(1, line + at, n - at);
        if (done <= 0)
            _exit(99);
        at += done;
    }
}

// clang-format off
static UNUSED const char *errno_name(int e) {
    static __thread char other[24];
#define NAME(x)                                                                                              \
    case x:                                                                                                  \
        return #x;
    switch (e) {
        NAME(E2BIG)
        NAME(EACCES) NAME(EADDRINUSE) NAME(EADDRNOTAVAIL) NAME(EAFNOSUPPORT) NAME(EAGAIN) NAME(EALREADY)
            NAME(EBADF) NAME(EBUSY) NAME(ECHILD) NAME(ECONNREFUSED) NAME(ECONNRESET) NAME(EDEADLK)
                NAME(EDESTADDRREQ) NAME(EDOM) NAME(EEXIST) NAME(EFAULT) NAME(EFBIG) NAME(EHOSTUNREACH)
                    NAME(EIDRM) NAME(EINPROGRESS) NAME(EINTR) NAME(EINVAL) NAME(EIO) NAME(EISCONN)
                        NAME(EISDIR) NAME(ELOOP) NAME(EMFILE) NAME(EMLINK) NAME(EMSGSIZE) NAME(ENAMETOOLONG)
                            NAME(ENETUNREACH) NAME(ENODATA) NAME(ENODEV) NAME(ENOENT) NAME(ENOEXEC)
                                NAME(ENOLCK) NAME(ENOMEM) NAME(ENOMSG) NAME(ENOPROTOOPT) NAME(ENOSPC)
                                    NAME(ENOSYS) NAME(ENOTCONN) NAME(ENOTDIR) NAME(ENOTEMPTY) NAME(ENOTSOCK)
                                        NAME(ENOTTY) NAME(ENXIO) NAME(EOPNOTSUPP) NAME(EOVERFLOW)
                                            NAME(EOWNERDEAD) NAME(EPERM) NAME(EPIPE) NAME(EPROTONOSUPPORT)
                                                NAME(EPROTOTYPE) NAME(ERANGE) NAME(EROFS) NAME(ESPIPE)
                                                    NAME(ESRCH) NAME(ETIMEDOUT) NAME(ETXTBSY) NAME(EXDEV)
                                                        NAME(ENOTRECOVERABLE) NAME(ECANCELED) NAME(ENOTBLK)
    }
    snprintf(other, sizeof(other), "E%d", e);
    return other;
}

static UNUSED const char *signal_name(int s) {
    static __thread char other[24];
    switch (s) {
        NAME(SIGHUP)
        NAME(SIGINT) NAME(SIGQUIT) NAME(SIGILL) NAME(SIGTRAP) NAME(SIGABRT) NAME(SIGBUS) NAME(SIGFPE)
            NAME(SIGKILL) NAME(SIGUSR1) NAME(SIGSEGV) NAME(SIGUSR2) NAME(SIGPIPE) NAME(SIGALRM) NAME(SIGTERM)
                NAME(SIGSTKFLT) NAME(SIGCHLD) NAME(SIGCONT) NAME(SIGSTOP) NAME(SIGTSTP) NAME(SIGTTIN)
                    NAME(SIGTTOU) NAME(SIGURG) NAME(SIGXCPU) NAME(SIGXFSZ) NAME(SIGVTALRM) NAME(SIGPROF)
                        NAME(SIGWINCH) NAME(SIGIO) NAME(SIGPWR) NAME(SIGSYS)
    }
#undef NAME
    snprintf(other, sizeof(other), "SIG%d", s);
    return other;
}
// clang-format on

// A truth that must hold, natively too: prints "expression: yes", or "expression: NO" and fails the program.
static UNUSED int expect_(int ok, const char *text) {
    if (!ok)
        wrong = 1;
    say("%s: %s", text, ok ? "yes" : "NO");
    return ok;
}
#define EXPECT(condition) expect_(!!(condition), #condition)

// A call whose result is either success (the value is not printed) or an errno name.
static UNUSED long try_(long result, const char *text) {
    say("%s: %s", text, result == -1 ? errno_name(errno) : "ok");
    return result;
}
#define TRY(call) (errno = 0, try_((long)(call), #call))

// A call whose result is printed as a number, or as an errno name.
static UNUSED long show_(long result, const char *text) {
    if (result == -1 && errno)
        say("%s = %s", text, errno_name(errno));
    else
        say("%s = %ld", text, result);
    return result;
}
#define SHOW(call) (errno = 0, show_((long)(call), #call))

// Preparation that has to work; quiet if it does.
static UNUSED long must_(long result, const char *text) {
    if (result == -1) {
        say("%s failed: %s", text, errno_name(errno));
        _exit(98);
    }
    return result;
}
#define MUST(call) must_((long)(call), #call)
static UNUSED void *mustp_(void *p, const char *text) {
    must_(p == MAP_FAILED || !p ? -1 : 0, text);
    return p;
}
#define MUSTP(call) mustp_((call), #call)

// Bounded loops become shorter where GUEST_SCALE is set (emulated machines).
static UNUSED long scaled(long n) {
    const char *by = getenv("GUEST_SCALE");
    long result = by && atol(by) > 0 ? n / atol(by) : n;
    return result > 0 ? result : 1;
}

// A pause that lets another thread or process come as far as it can; longer where GUEST_SLOW is set (emulated
// machines).
static UNUSED void pause_ms(long ms) {
    const char *by = getenv("GUEST_SLOW");
    if (by && atol(by) > 1)
        ms *= atol(by);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) == -1 && errno == EINTR)
        ;
}

static UNUSED long long now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static UNUSED void *pages(size_t count) { // fresh private anonymous pages
    return MUSTP(mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static UNUSED void on(int sig, void (*handler)(int), int flags) { // plain handler
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(sig, &a, NULL));
}
static UNUSED void on_info(int sig, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    MUST(sigaction(sig, &a, NULL));
}

// CATCH(statement): run it, note the fault it takes (if any) in `fault`, go on behind it.
static struct {
    int sig, code;
    char *addr;
    sigjmp_buf back;
} fault UNUSED;
static UNUSED void catch_(int sig, siginfo_t *info, void *context) {
    (void)context;
    fault.sig = sig, fault.code = info->si_code, fault.addr = info->si_addr;
    siglongjmp(fault.back, 1);
}
static const int fault_signals[] UNUSED = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
static UNUSED void catch_all(void) {
    for (size_t i = 0; i < COUNT(fault_signals); i++)
        on_info(fault_signals[i], catch_, SA_ONSTACK);
}
static UNUSED void catch_none(void) {
    for (size_t i = 0; i < COUNT(fault_signals); i++)
        on(fault_signals[i], SIG_DFL, 0);
}
#define CATCH(...)                                                                                           \
    do {                                                                                                     \
        catch_all();                                                                                         \
        fault.sig = fault.code = 0, fault.addr = 0;                                                          \
        if (!sigsetjmp(fault.back, 1)) {                                                                     \
            __VA_ARGS__;                                                                                     \
        }                                                                                                    \
        catch_none();                                                                                        \
    } while (0)

static UNUSED const char *code_name(int sig, int code) {
    static char other[24];
    switch (code) {
    case SI_USER:
        return "SI_USER";
    case SI_KERNEL:
        return "SI_KERNEL";
    case SI_QUEUE:
        return "SI_QUEUE";
    case SI_TIMER:
        return "SI_TIMER";
    case SI_TKILL:
        return "SI_TKILL";
    case SI_MESGQ:
        return "SI_MESGQ";
    }
    static const char *const segv[] = {"", "SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"};
    static const char *const bus[] = {"", "BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"};
    static const char *const fpe[] = {"",           "FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF",
                                      "FPE_FLTUND", "FPE_FLTRES", "FPE_FLTINV", "FPE_FLTSUB"};
    static const char *const chld[] = {
        "", "CLD_EXITED", "CLD_KILLED", "CLD_DUMPED", "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED"};
    static const char *const ill[] = {"", "ILL_ILLOPC", "ILL_ILLOPN"};
    static const char *const trap[] = {"", "TRAP_BRKPT", "TRAP_TRACE"};
#define PICK(which, table)                                                                                   \
    if (sig == which && code > 0 && code < (int)COUNT(table))                                                \
    return table[code]
    PICK(SIGSEGV, segv);
    PICK(SIGBUS, bus);
    PICK(SIGFPE, fpe);
    PICK(SIGCHLD, chld);
    PICK(SIGILL, ill);
    PICK(SIGTRAP, trap);
#undef PICK
    snprintf(other, sizeof(other), "%d", code);
    return other;
}

static UNUSED void say_fault(const char *what, const void *base) { // address relative to base
    if (!fault.sig)
        say("%s: no fault", what);
    else if (base)
        say("%s: %s %s at base%+ld", what, signal_name(fault.sig), code_name(fault.sig, fault.code),
            (long)(fault.addr - (char *)base));
    else
        say("%s: %s %s at 0x%lx", what, signal_name(fault.sig), code_name(fault.sig, fault.code),
            (long)fault.addr);
}

static UNUSED void say_status(const char *what, int status) {
    if (WIFEXITED(status))
        say("%s: exited %d", what, WEXITSTATUS(status));
    else if (WIFSIGNALED(status)) // the core flag depends on the limits, so it is not shown
        say("%s: killed by %s", what, signal_name(WTERMSIG(status)));
    else if (WIFSTOPPED(status))
        say("%s: stopped by %s", what, signal_name(WSTOPSIG(status)));
    else
        say("%s: continued", what);
}

// pid_t p = CHILD(statements): fork, run them in the child, which then exits with `wrong`.
#define CHILD(...)                                                                                           \
    ({                                                                                                       \
        pid_t child_ = (pid_t)MUST(fork());                                                                  \
        if (!child_) {                                                                                       \
            __VA_ARGS__;                                                                                     \
            _exit(wrong);                                                                                    \
        }                                                                                                    \
        child_;                                                                                              \
    })
static UNUSED int reap(const char *what, pid_t pid) { // wait for one child and say how it ended
    int status;
    while (waitpid(pid, &status, 0) == -1)
        if (errno != EINTR) {
            say("%s: wait %s", what, errno_name(errno));
            return -1;
        }
    say_status(what, status);
    return status;
}

typedef void *(*thread_main)(void *);
static UNUSED pthread_t thread(thread_main run, void *argument) {
    pthread_t t;
    errno = pthread_create(&t, NULL, run, argument);
    MUST(errno ? -1 : 0);
    return t;
}
static UNUSED void *join(pthread_t t) {
    void *result = NULL;
    errno = pthread_join(t, &result);
    MUST(errno ? -1 : 0);
    return result;
}
static UNUSED int file_with(const char *path, const char *text) { // new file, open for reading and writing
    int fd = (int)MUST(open(path, O_RDWR | O_CREAT | O_TRUNC, 0644));
    MUST(write(fd, text, strlen(text)));
    return fd;
}
static UNUSED char *slurp(const char *path) { // whole file as a string; NULL with errno if it cannot be read
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    size_t size = 0, room = 65536;
    char *text = malloc(room);
    for (ssize_t n; (n = read(fd, text + size, room - size - 1)) > 0;) {
        size += n;
        if (room - size < 4096)
            text = realloc(text, room *= 2);
    }
    close(fd);
    text[size] = 0;
    return text;
}
#endif
