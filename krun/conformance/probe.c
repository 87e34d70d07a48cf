// The payload of `krun conformance`: carries out the instructions of its command line, one line of JSON each.
//
// An instruction is "VERB:ARGUMENT" (the verbs are the table at the end); the answer is {"do": instruction, ...}, with
// "errno" where the call failed. The program knows nothing of the contract: krun/conformance/cases.py chooses the
// instructions, krun/conformance/checks.py judges the answers. It is linked statically, because the container's root
// holds nothing else. One thread; no state but the buffers below. serve.c is the program of a platform.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static char text[65536];
static char **arguments;
extern char **environ;

// A JSON string of bytes: a byte outside ASCII becomes the code point of its number, so that nothing is lost.
void probe_print_bytes(const char *bytes, size_t length) {
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < 0x20 || c > 0x7e) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void key(const char *name) { printf(", \"%s\": ", name); }

static void print_text(const char *name, const char *value) {
    key(name);
    probe_print_bytes(value, strlen(value));
}

static void print_number(const char *name, long value) {
    key(name);
    printf("%ld", value);
}

// The result of a call: nothing where it succeeded, else the errno's number.
static int failed(long result) {
    if (result >= 0) {
        return 0;
    }
    print_number("errno", errno);
    return 1;
}

static void print_list(const char *name, char **words) {
    key(name);
    putchar('[');
    for (int i = 0; words[i]; i++) {
        if (i) {
            printf(", ");
        }
        probe_print_bytes(words[i], strlen(words[i]));
    }
    putchar(']');
}

static void print_groups(void) {
    gid_t groups[256];
    int count = getgroups(256, groups);
    key("groups");
    putchar('[');
    for (int i = 0; i < count; i++) {
        printf("%s%u", i ? ", " : "", groups[i]);
    }
    putchar(']');
}

static void print_descriptors(void) {
    int first = 1;
    key("fds");
    putchar('[');
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            printf("%s%d", first ? "" : ", ", fd);
            first = 0;
        }
    }
    putchar(']');
}

static void do_self(const char *unused) {
    (void)unused;
    print_number("uid", getuid());
    print_number("euid", geteuid());
    print_number("gid", getgid());
    print_number("egid", getegid());
    print_number("pid", getpid());
    print_groups();
    print_descriptors();
    print_list("args", arguments);
    print_list("env", environ);
    key("tty");
    printf("[%d, %d, %d]", isatty(0), isatty(1), isatty(2));
    if (getcwd(text, sizeof text)) {
        print_text("cwd", text);
    }
}

static void do_stat(const char *path) {
    struct stat status;
    if (failed(stat(path, &status))) {
        return;
    }
    print_number("mode", status.st_mode);
    print_number("uid", status.st_uid);
    print_number("gid", status.st_gid);
    print_number("major", major(status.st_rdev));
    print_number("minor", minor(status.st_rdev));
}

static void do_link(const char *path) {
    ssize_t length = readlink(path, text, sizeof text - 1);
    if (!failed(length)) {
        text[length] = 0;
        print_text("target", text);
    }
}

static void do_read(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (failed(fd)) {
        return;
    }
    size_t length = 0;
    ssize_t part = 0;
    while (length < sizeof text && (part = read(fd, text + length, sizeof text - length)) > 0) {
        length += (size_t)part;
    }
    if (!failed(part)) {
        key("text");
        probe_print_bytes(text, length);
    }
    close(fd);
}

static void do_list(const char *path) {
    DIR *directory = opendir(path);
    if (failed(directory ? 0 : -1)) {
        return;
    }
    struct dirent *entry;
    const char *comma = "";
    key("names");
    putchar('[');
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        printf("%s", comma);
        probe_print_bytes(entry->d_name, strlen(entry->d_name));
        comma = ", ";
    }
    putchar(']');
    closedir(directory);
}

static void write_to(const char *path, int flags, const char *what) {
    int fd = open(path, flags | O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0644);
    if (failed(fd)) {
        return;
    }
    failed(write(fd, what, strlen(what)));
    close(fd);
}

// "PATH TEXT": write the text to a file that exists.
static void write_both(const char *both, int flags) {
    snprintf(text, sizeof text, "%s", both);
    char *blank = strchr(text, ' ');
    if (blank) {
        *blank = 0;
    }
    write_to(text, flags, blank ? blank + 1 : "");
}

static void do_write(const char *both) { write_both(both, 0); }

static void do_append(const char *both) { write_both(both, O_APPEND); }

// "DIRECTORY": make a directory there, a file in it, give the file another name, remove both.
static void do_make(const char *path) {
    char folder[256], first[300], second[300];
    snprintf(folder, sizeof folder, "%s/conformance-probe", path);
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    if (failed(mkdir(folder, 0755))) {
        return;
    }
    int fd = open(first, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) {
        close(fd);
    }
    failed(fd < 0 ? -1 : rename(first, second));
    unlink(first);
    unlink(second);
    rmdir(folder);
}

// "MAJOR:MINOR": make a node of a character device and open it.
static void do_device(const char *numbers) {
    char *colon;
    unsigned large = (unsigned)strtoul(numbers, &colon, 10);
    unsigned small = *colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    const char *path = "/tmp/conformance-device";
    if (failed(mknod(path, S_IFCHR | 0600, makedev(large, small)))) {
        return;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (!failed(fd)) {
        close(fd);
    }
    unlink(path);
}

static void do_stdin(const char *unused) {
    (void)unused;
    ssize_t length = read(0, text, sizeof text);
    if (!failed(length)) {
        print_number("length", length);
    }
}

static void do_pipe(const char *unused) {
    (void)unused;
    int ends[2];
    if (failed(pipe(ends))) {
        return;
    }
    // The buffer of stdout must not be in the child, which would print it a second time.
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(write(ends[1], "word", 4) == 4 ? 0 : 1);
    }
    close(ends[1]);
    if (!failed(child)) {
        ssize_t length = read(ends[0], text, 4);
        int status = -1;
        waitpid(child, &status, 0);
        print_number("length", length);
        print_number("status", status);
    }
    close(ends[0]);
}

static void do_syslog(const char *message) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (failed(fd)) {
        return;
    }
    if (!failed(connect(fd, (struct sockaddr *)&address, sizeof address))) {
        failed(send(fd, message, strlen(message), MSG_NOSIGNAL));
    }
    close(fd);
}

// "NUMBER": a system call whose six arguments are -1.
static void do_call(const char *number) {
    failed(syscall(strtol(number, NULL, 10), -1L, -1L, -1L, -1L, -1L, -1L));
}

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

// Nanoseconds of a system call without arguments: the best of some rounds, because other work only adds.
static long price(long number) {
    enum { ROUNDS = 10, CALLS = 16 };
    long best = -1;
    for (int round = 0; round < ROUNDS; round++) {
        long begin = nanoseconds();
        for (int i = 0; i < CALLS; i++) {
            syscall(number);
        }
        long took = nanoseconds() - begin;
        best = best < 0 || took < best ? took : best;
    }
    return best / CALLS;
}

// For krun/kvm/measure.py: a call that always leaves the guest, and one that krun's code in the guest may complete.
static void do_exits(const char *unused) {
    (void)unused;
    print_number("exit", price(SYS_getppid));
    print_number("own", price(SYS_getpid));
}

static void do_stderr(const char *message) { dprintf(2, "%s\n", message); }

static void do_exit(const char *code) {
    printf("}\n");
    fflush(stdout);
    _exit(atoi(code));
}

// Waits for "COUNT" signals SIGTERM, with a line for each; then waits until it is killed.
static void do_signals(const char *count) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("}\n");
    for (int i = 0; i < atoi(count); i++) {
        int signal = 0;
        printf("{\"do\": \"waiting:%d\"}\n", i);
        fflush(stdout);
        sigwait(&set, &signal);
        printf("{\"do\": \"signal:%d\", \"signal\": %d}\n", i, signal);
        fflush(stdout);
    }
    for (;;) {
        pause();
    }
}

static const struct verb {
    const char *name;
    void (*run)(const char *argument);
} verbs[] = {
    {"self", do_self},     {"stat", do_stat},   {"link", do_link},       {"read", do_read},
    {"list", do_list},     {"write", do_write}, {"make", do_make},       {"device", do_device},
    {"stdin", do_stdin},   {"pipe", do_pipe},   {"syslog", do_syslog},   {"call", do_call},
    {"stderr", do_stderr}, {"exit", do_exit},   {"signals", do_signals}, {"serve", probe_serve},
    {"append", do_append}, {"exits", do_exits},
};

int probe_obey(const char *instruction) {
    const char *colon = strchr(instruction, ':');
    size_t length = colon ? (size_t)(colon - instruction) : 0;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (colon && strlen(verbs[i].name) == length && strncmp(verbs[i].name, instruction, length) == 0) {
            printf("{\"do\": ");
            probe_print_bytes(instruction, strlen(instruction));
            verbs[i].run(colon + 1);
            printf("}\n");
            fflush(stdout);
            return 0;
        }
    }
    dprintf(2, "probe: unknown instruction %s\n", instruction);
    return 2;
}

int main(int argc, char **argv) {
    (void)argc;
    arguments = argv;
    for (char **word = argv + 1; *word; word++) {
        if (probe_obey(*word)) {
            return 2;
        }
    }
    return 0;
}
