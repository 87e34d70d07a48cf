/* SPDX-License-Identifier: Apache-2.0
 *
 * startContainer hooks (config.md, "POSIX-platform Hooks"). Each hook is a program of the container, so it
 * runs in a VM of its own: a child of the monitor executes the monitor anew with a boot block for the hook.
 * The hook reads the container's state on stdin. What it writes is part of the message if it fails, and is dropped otherwise.
 *
 * State: none. Called once by the first thread, before the payload is loaded; no other thread runs.
 */
#include "hook.h"
#include "exec.h"
#include "../abi/boot.h"
#include <linux/fcntl.h>
#include <linux/wait.h>
#include <asm/poll.h>
#include <asm/signal.h>

#define CODE_NO_EXEC 127
#define SAID 200       /* bytes of a hook's output that the message has */
#define LAST_READS 16u /* of output that is left when the hook has ended: others may write without end */
#define BLIND_NS 10000000

struct hook {
    u32 timeout, argc, envc, has_env;
    const char *path;
    char **argv, **envp; /* NULL-terminated; envp has room for the boot block's strings */
    size_t argv_size, envp_size;
};

/* Takes one string of the record; NULL if it does not end inside the record. */
static const char *string(const char **p, const char *end) {
    const char *s = *p, *q = s;
    while (q < end && *q)
        q++;
    if (q == end)
        return NULL;
    *p = q + 1;
    return s;
}

static int parse(const u8 *data, u32 len, struct hook *h) {
    u32 head[4];
    memset(h, 0, sizeof *h);
    if (len < sizeof head)
        return -EINVAL;
    memcpy(head, data, sizeof head);
    h->timeout = head[0];
    h->argc = head[1];
    h->envc = head[2];
    h->has_env = head[3];
    if (h->argc > len || h->envc > len)
        return -EINVAL;
    const char *p = (const char *)data + sizeof head, *end = (const char *)data + len;
    h->path = string(&p, end);
    if (!h->path)
        return -EINVAL;
    h->argv_size = (h->argc + 2) * sizeof(char *);
    h->envp_size = (h->envc + KR_BOOT_STRINGS + 1) * sizeof(char *);
    h->argv = kr_alloc(h->argv_size);
    h->envp = kr_alloc(h->envp_size);
    if (!h->argv || !h->envp)
        return -ENOMEM;
    for (u32 i = 0; i < h->argc; i++)
        if (!(h->argv[i] = (char *)string(&p, end)))
            return -EINVAL;
    for (u32 i = 0; i < h->envc; i++)
        if (!(h->envp[i] = (char *)string(&p, end)))
            return -EINVAL;
    if (!h->argc)
        h->argv[0] = (char *)h->path;
    return 0;
}

/* Runs in the child: executes the monitor of the hook's program. */
__attribute__((noreturn)) static void child(struct kr_task *t, struct hook *h, int in, int out) {
    char *text;
    size_t size;
    struct kr_program p;
    const char *why;
    kr_sys3(__NR_dup3, in, 0, 0);
    kr_sys3(__NR_dup3, out, 1, 0);
    kr_sys3(__NR_dup3, out, 2, 0);
    long r = kr_program_find(t, AT_FDCWD, h->path, 0, &p, &why);
    if (r < 0) { /* the next monitor would die of it, without a word */
        kr_unfit_say(h->path, &p, why, -r);
        kr_sys1(__NR_exit_group, CODE_NO_EXEC);
    }
    kr_program_free(&p);
    /* Without KR_BOOTF_FIRST and the descriptors for messages the new monitor runs at once and sends no
     * message. */
    long n = kr_boot_block(t, h->path, NULL, t->proc->flags, &text, &size);
    if (n > 0 && n <= KR_BOOT_STRINGS) {
        for (long i = 0; i < n; i++, text += strlen(text) + 1)
            h->envp[h->envc + i] = text;
        kr_exec_self(NULL, h->argv, h->envp);
    }
    for (;;)
        kr_sys1(__NR_exit_group, CODE_NO_EXEC);
}

/* A hook's output: the reading end of its pipe, -1 once it is closed, and the first bytes as one line. */
struct output {
    int fd;
    u32 n;
    char text[SAID + 1];
};

/* Reads once. Whether there may be more. */
static int listen(struct output *o) {
    u8 data[512];
    long n = kr_sys3(__NR_read, o->fd, data, sizeof data);
    for (long i = 0; i < n && o->n < SAID; i++)
        if (data[i] > ' ' || o->n) /* the hook is hostile, and fields of a message end at a NUL */
            o->text[o->n++] = (char)(data[i] >= 0x7f ? '?' : data[i] < ' ' ? ' ' : data[i]);
    if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR)) {
        kr_sys1(__NR_close, o->fd);
        o->fd = -1;
    }
    return n > 0;
}

/* Writes the state to the child, reads what it says and waits for its end. Kills the child after its timeout. Returns the wait
 * status or -errno. */
static long attend(long pid, int out, struct output *said, u32 timeout) {
    u64 deadline = timeout ? kr_now() + timeout * 1000000000ULL : ~0ULL;
    size_t fed = 0;
    int killed = 0, status = 0;
    long pidfd = kr_sys2(__NR_pidfd_open, pid, 0);
    if (pidfd < 0)
        return pidfd;
    for (;;) {
        struct {
            s32 fd;
            short events, revents;
        } p[3] = {{(s32)pidfd, POLLIN, 0}, {out, POLLOUT, 0}, {said->fd, POLLIN, 0}}; /* -1 is left alone */
        u64 now = kr_now();
        s64 left = deadline == ~0ULL ? -1 : now >= deadline ? 0 : (s64)((deadline - now) / 1000000 + 1);
        if (left == 0 && !killed) {
            kr_sys2(__NR_kill, pid, SIGKILL);
            killed = 1;
        }
        long n = kr_sys3(__NR_poll, p, KR_COUNT(p), killed ? -1 : KR_MIN(left, 3600 * 1000));
        /* poll(2) fails with EINVAL below RLIMIT_NOFILE, which a hook may set for this process: then both are asked in turns. */
        int blind = n < 0 && n != -EINTR;
        if (blind) {
            const s64 pause[2] = {0, BLIND_NS};
            kr_sys2(__NR_nanosleep, pause, 0);
            p[0].revents = p[1].revents = p[2].revents = POLLERR;
        }
        if (said->fd >= 0 && p[2].revents)
            listen(said);
        if (out >= 0 && p[1].revents) {
            n = fed < kr_boot.state_json_len
                    ? kr_sys3(__NR_write, out, kr_boot.state_json + fed, kr_boot.state_json_len - fed)
                    : 0;
            if (n > 0)
                fed += (size_t)n;
            if (n != -EINTR && n != -EAGAIN && (n <= 0 || fed == kr_boot.state_json_len)) {
                kr_sys1(__NR_close, out); /* all is written, or the hook has closed its stdin (EPIPE) */
                out = -1;
            }
        }
        if (p[0].revents) {
            long r = kr_sys4(__NR_wait4, pid, &status, blind ? WNOHANG : 0, 0);
            if (r != 0 && r != -EINTR) {
                for (u32 i = 0; i < LAST_READS && said->fd >= 0 && listen(said); i++)
                    ;
                if (out >= 0)
                    kr_sys1(__NR_close, out);
                kr_sys1(__NR_close, pidfd);
                return r < 0 ? r : killed ? -ETIMEDOUT : status;
            }
        }
    }
}

static long run(struct kr_task *t, struct hook *h, u32 index, char *why, size_t size) {
    int in_out[2], words[2] = {-1, -1};
    struct output said = {0};
    long r = kr_sys2(__NR_pipe2, in_out, O_CLOEXEC);
    if (r == 0 && (r = kr_sys2(__NR_pipe2, words, O_CLOEXEC)) < 0) {
        kr_sys1(__NR_close, in_out[0]);
        kr_sys1(__NR_close, in_out[1]);
    }
    if (r < 0) {
        kr_snprintf(why, size, "startContainer hook %u: pipe: errno %ld", index, -r);
        return r;
    }
    kr_sys3(__NR_fcntl, in_out[1], F_SETFL, O_NONBLOCK);
    kr_sys3(__NR_fcntl, words[0], F_SETFL, O_NONBLOCK);
    said.fd = words[0];
    /* A hook that does not read its stdin must not end the monitor by SIGPIPE. The payload's own disposition
     * is set when the payload is loaded. */
    struct kr_sigaction ignore = {.handler = 1}, was;
    kr_sys4(__NR_rt_sigaction, SIGPIPE, &ignore, &was, 8);
    long pid = kr_sys6(__NR_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (pid == 0) {
        kr_sys4(__NR_rt_sigaction, SIGPIPE, &was, 0, 8);
        child(t, h, in_out[0], words[1]);
    }
    kr_sys1(__NR_close, in_out[0]);
    kr_sys1(__NR_close, words[1]);
    if (pid < 0) {
        kr_sys1(__NR_close, in_out[1]);
        kr_snprintf(why, size, "startContainer hook %u: fork: errno %ld", index, -pid);
        r = pid;
    } else {
        r = attend(pid, in_out[1], &said, h->timeout);
        if (r == -ETIMEDOUT)
            kr_snprintf(why, size, "startContainer hook %u: %s: timed out after %u s", index, h->path,
                        h->timeout);
        else if (r < 0)
            kr_snprintf(why, size, "startContainer hook %u: %s: wait: errno %ld", index, h->path, -r);
        else if (r & 0x7f)
            kr_snprintf(why, size, "startContainer hook %u: %s: killed by signal %ld", index, h->path,
                        r & 0x7f);
        else if (r)
            kr_snprintf(why, size, "startContainer hook %u: %s: exit status %ld", index, h->path,
                        r >> 8 & 0xff);
        size_t n = strlen(why);
        if (r != 0 && said.n)
            kr_snprintf(why + n, size - n, ", output: %s", said.text);
    }
    if (said.fd >= 0)
        kr_sys1(__NR_close, said.fd);
    kr_sys4(__NR_rt_sigaction, SIGPIPE, &was, 0, 8);
    return r;
}

long kr_hooks_run(struct kr_task *t, char *why, size_t size) {
    size_t pos = 0;
    u32 len, index = 0;
    const void *data;
    long r = 0;
    while (r == 0 && (data = kr_boot_next(&kr_boot, KR_BOOT_HOOK, &pos, &len))) {
        struct hook h;
        r = parse(data, len, &h);
        if (r < 0)
            kr_snprintf(why, size, "startContainer hook %u: bad record", index);
        else
            r = run(t, &h, index, why, size);
        kr_free(h.argv, h.argv_size);
        kr_free(h.envp, h.envp_size);
        index++;
    }
    return r;
}
