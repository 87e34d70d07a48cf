/* SPDX-License-Identifier: Apache-2.0
 * State: the two sockets, under ask_lock and serve_lock; in a task: what was asked of it, and the call that
 * it interrupted (touched by that thread and its host handler only). The protocol is in ask.h. */
#include "ask.h"
#include "board.h"
#include "fdtab.h"
#include "hostsig.h"
#include "mm.h"
#include "sigframe.h"
#include "usercopy.h"
#include "../sys/misc.h"
#include "../sys/sys.h"
#include <asm/signal.h>
#include <linux/capability.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <linux/time.h>

enum op { LINK = 1, TEXT, FDS };

#define FAMILY 1            /* AF_UNIX */
#define KIND (5 | 02004000) /* SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK */
#define SOL_SOCKET_ 1
#define SO_PEERCRED_ 17
#define SCM_RIGHTS_ 1
#define MSG_QUIET 0x4040 /* MSG_DONTWAIT | MSG_NOSIGNAL */
#define MSG_CLOEXEC 0x40000000
#define POLL_IN 1

#define WAIT_MS 50u
#define WAITS 20u     /* a second in all, for a process that sleeps or is in a long call of the kernel's, */
#define PATIENCE 200u /* ten for one that wants to run: the machine is busy */
#define FDS_MAX (1u << 20)
#define TEXT_MAX (64u << 20)

struct name { /* of an abstract socket bound without one: five digits */
    u16 family;
    char text[6];
};
#define NAME_SIZE 8

struct cred {
    u32 pid, uid, gid;
};

struct answer {
    u64 cookie;
    s32 status; /* 0 or -errno */
    u32 mode;
};

struct control {
    u64 len;
    s32 level, type;
    s32 fd;
    u32 pad;
};

struct msg {
    void *name;
    u32 name_len, pad0;
    struct {
        void *base;
        u64 len;
    } * iov;
    u64 iov_len;
    void *control;
    u64 control_len;
    u32 flags, pad1;
};

static struct kr_lock ask_lock, serve_lock;
static int ask_fd = -1, ask_peer = -1, serve_fd = -1;

/* A socket: out of the payload's reach where other threads could get at it. *holder is its number. */
static long sock_new(struct kr_task *t, int *holder) {
    if (!kr_files_shared(t)) {
        *holder = (int)kr_sys3(__NR_socket, FAMILY, KIND, 0);
        return *holder;
    }
    if (t->is_vfork)
        return -EACCES; /* makes no hidden descriptors (fdtab.h) */
    kr_fd_hide_begin();
    return kr_fd_hide_end((int)kr_sys3(__NR_socket, FAMILY, KIND, 0), KR_FD_FORK_DROPS, holder);
}

static long sock_accept(struct kr_task *t, int from, int *holder) {
    if (!kr_files_shared(t)) {
        *holder = (int)kr_sys4(__NR_accept4, from, 0, 0, KIND & ~7);
        return *holder;
    }
    kr_fd_hide_begin();
    return kr_fd_hide_end((int)kr_sys4(__NR_accept4, from, 0, 0, KIND & ~7), KR_FD_FORK_DROPS, holder);
}

static void sock_drop(struct kr_task *t, int *holder) {
    if (*holder >= 0 && kr_files_shared(t))
        kr_fd_drop(holder);
    else if (*holder >= 0)
        kr_sys1(__NR_close, *holder);
    *holder = -1;
}

static int peer_of(int fd, struct cred *c) {
    u32 len = sizeof *c;
    return kr_sys5(__NR_getsockopt, fd, SOL_SOCKET_, SO_PEERCRED_, c, &len) == 0 && len == sizeof *c;
}

void kr_ask_after_fork(void) {
    kr_lock_init(&ask_lock);
    kr_lock_init(&serve_lock);
}

/* ---- What /proc says of a process to everybody ---- */

static const char *after(const char *text, const char *key) {
    const char *p = text;
    for (size_t n = strlen(key); p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, n) == 0)
            return p + n;
    return NULL;
}

static u64 hex_of(const char *s) {
    u64 v = 0;
    while (*s == ' ' || *s == '\t')
        s++;
    for (;; s++)
        if (*s >= '0' && *s <= '9')
            v = v << 4 | (u64)(*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            v = v << 4 | (u64)(*s - 'a' + 10);
        else
            return v;
}

/* The monitor's procfs counts as the calling process does (it is not in a pid namespace of its own below). */
static int same_numbers(void) {
    char self[16];
    if (kr_boot.fd_proc < 0)
        return 0;
    long n = kr_sys4(__NR_readlinkat, kr_boot.fd_proc, "self", self, sizeof self - 1);
    if (n <= 0)
        return 0;
    self[n] = 0;
    return kr_strtou(self, NULL) == (u64)kr_sys0(__NR_getpid);
}

/* State letter and start (clock ticks) of process pid. 0 or -ESRCH. */
static long stat_of(u32 pid, char *state, u64 *start) {
    char rel[32];
    size_t size, len;
    kr_snprintf(rel, sizeof rel, "%u/stat", pid);
    char *text = kr_proc_slurp(rel, &size, &len), *p = text ? strrchr(text, ')') : NULL;
    long r = -ESRCH;
    if (p && p[1] == ' ') {
        *state = p[2];
        for (int field = 2; p && field < 22; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        if (p) {
            *start = kr_strtou(p, NULL);
            r = 0;
        }
    }
    kr_free(text, text ? size : 0);
    return r;
}

long kr_ask_board(struct kr_task *t, u32 pid, struct kr_board_entry *out) {
    char state;
    u64 start;
    (void)t;
    if (!kr_board_cookie() || !same_numbers() || stat_of(pid, &state, &start) < 0 ||
        kr_board_find(pid, start, out) < 0)
        return -ESRCH;
    return 0;
}

/* ---- Asking ---- */

static long kick(u32 pid, u32 name, enum op op, u32 sub, u32 n) {
    siginfo_t si;
    memset(&si, 0, sizeof si);
    si.si_signo = SIGBUS;
    si.si_code = SI_QUEUE;
    si.si_pid = (s32)(name | (u32)op << 20 | sub << 24);
    si.si_uid = n;
    si.si_value.sival_ptr = (void *)kr_board_cookie();
    return kr_sys3(__NR_rt_sigqueueinfo, pid, SIGBUS, &si);
}

/* Reads the owner's message. 0 and *fd (or -1), or -errno. */
static long receive(int from, struct answer *a, int *fd) {
    struct control c = {0};
    struct {
        void *base;
        u64 len;
    } iov = {a, sizeof *a};
    struct msg m = {.iov = (void *)&iov, .iov_len = 1, .control = &c, .control_len = sizeof c};
    *fd = -1;
    long n = kr_sys3(__NR_recvmsg, from, &m, MSG_QUIET | MSG_CLOEXEC);
    if (n < 0)
        return n;
    if (m.control_len >= 20 && c.level == SOL_SOCKET_ && c.type == SCM_RIGHTS_ && c.len >= 20)
        *fd = c.fd;
    if (n != sizeof *a || a->cookie != kr_board_cookie() || a->status > 0 || a->status < -4095) {
        if (*fd >= 0)
            kr_sys1(__NR_close, *fd);
        *fd = -1;
        return -EACCES;
    }
    return 0;
}

/* Waits for readiness of a socket of ours, answering others meanwhile. 1, 0 (time), or -KR_ERESTART. */
static long wait_for(struct kr_task *t, int a, int b) {
    struct {
        s32 fd;
        u16 events, revents;
    } p[2] = {{a, POLL_IN, 0}, {b, POLL_IN, 0}};
    s64 ts[2] = {0, WAIT_MS * 1000000L};
    for (;;) {
        long n = kr_call_intr(__NR_ppoll, (u64)p, 2, (u64)ts, 0, 8, 0);
        if (n != -KR_ERESTART && n != -EINTR)
            return n < 0 ? 0 : n > 0;
        if (t->asked != KR_ASKED_QUESTION || t->sig_caught)
            return -KR_ERESTART;
        kr_ask_serve(t);
        t->resumed = 0; /* it was this wait, not the call of the payload */
    }
}

/* One request. 0 with the answer and its descriptor, or an error of ask.h. */
static long ask(struct kr_task *t, u32 pid, enum op op, u32 sub, u32 n, struct answer *a, int *fd) {
    struct kr_board_entry e;
    struct name name = {.family = FAMILY};
    u32 len = sizeof name;
    char state;
    u64 start;
    *fd = -1;
    if (!kr_board_cookie() || !same_numbers() || stat_of(pid, &state, &start) < 0 ||
        kr_board_find(pid, start, &e) < 0)
        return -ESRCH;
    if (state == 'Z' || state == 'X')
        return -ENOENT;
    if (state == 'T' || state == 't' || __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS)
        return -EACCES;
    kr_lock(&ask_lock);
    long r = sock_new(t, &ask_fd);
    if (r >= 0)
        r = kr_sys3(__NR_bind, ask_fd, &name, 2); /* the kernel finds a name */
    if (r >= 0)
        r = kr_sys2(__NR_listen, ask_fd, 4);
    if (r >= 0)
        r = kr_sys3(__NR_getsockname, ask_fd, &name, &len);
    char digits[6] = "";
    memcpy(digits, name.text + 1, 5);
    u32 number = (u32)hex_of(digits);
    if (r < 0 || len != NAME_SIZE || number >> 20) {
        r = -EACCES;
        goto out;
    }
    r = -EACCES;
    for (u32 waits = 0; waits < PATIENCE; waits++) {
        struct cred c;
        if (waits >= WAITS && waits % 4 == 0 && (stat_of(pid, &state, &start) < 0 || state != 'R'))
            break;
        if (waits % 4 == 0) { /* again: an equal signal that was pending already swallows ours */
            if (kick(pid, number, op, sub, n) == -EPERM)
                break;
        }
        long ready = wait_for(t, ask_peer < 0 ? ask_fd : -1, ask_peer);
        if (ready < 0) {
            r = ready;
            break;
        }
        if (!ready)
            continue;
        if (ask_peer < 0) {
            if (sock_accept(t, ask_fd, &ask_peer) >= 0 && !(peer_of(ask_peer, &c) && c.pid == pid))
                sock_drop(t, &ask_peer); /* somebody else */
            continue;
        }
        r = receive(ask_peer, a, fd);
        if (r == -EAGAIN) {
            r = -EACCES;
            continue;
        }
        if (r == 0)
            r = a->status;
        break;
    }
    sock_drop(t, &ask_peer);
out:
    sock_drop(t, &ask_fd);
    kr_unlock(&ask_lock);
    if (r < 0 && *fd >= 0) {
        kr_sys1(__NR_close, *fd);
        *fd = -1;
    }
    return r;
}

long kr_ask_link(struct kr_task *t, const struct kr_proc_name *w, u32 *mode) {
    struct answer a;
    int fd;
    long r = ask(t, (u32)w->pid, LINK, w->entry, (u32)w->n, &a, &fd);
    if (r < 0)
        return r;
    /* A descriptor that is open in some other way would be another's open file, not its name. */
    long flags = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GETFL) : -1;
    if (flags < 0 || !(flags & O_PATH)) {
        if (fd >= 0)
            kr_sys1(__NR_close, fd);
        return -EACCES;
    }
    *mode = a.mode;
    return fd;
}

/* The length of what must be a sealed memfd, open for reading only; -EACCES. */
static long sealed(int fd, u64 max) {
    const long seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct statx sx;
    long has = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GET_SEALS) : -1;
    long flags = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GETFL) : -1;
    if (has < 0 || (has & seals) != seals || flags < 0 || flags & (O_ACCMODE | O_PATH) ||
        kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &sx) < 0 || sx.stx_size > max)
        return -EACCES;
    return (long)sx.stx_size;
}

long kr_ask_text(struct kr_task *t, const struct kr_proc_name *w) {
    struct answer a;
    int fd;
    long r = ask(t, (u32)w->pid, TEXT, w->entry, (u32)w->n, &a, &fd);
    if (r == 0)
        r = sealed(fd, TEXT_MAX);
    if (r < 0 && fd >= 0)
        kr_sys1(__NR_close, fd);
    return r < 0 ? r : fd;
}

long kr_ask_fds(struct kr_task *t, u32 pid, u32 **fds, u32 *n, size_t *size) {
    struct answer a;
    int fd;
    *fds = NULL;
    long r = ask(t, pid, FDS, 0, 0, &a, &fd);
    if (r == 0)
        r = sealed(fd, FDS_MAX * sizeof **fds);
    if (r >= 0) {
        *size = (size_t)r + 4;
        *n = (u32)r / sizeof **fds;
        *fds = kr_alloc(*size);
        r = !*fds                                                                                ? -ENOMEM
            : kr_sys4(__NR_pread64, fd, *fds, *n * sizeof **fds, 0) != (long)(*n * sizeof **fds) ? -EACCES
                                                                                                 : 0;
        for (u32 i = 1; r == 0 && i < *n; i++)
            if ((*fds)[i] <= (*fds)[i - 1])
                r = -EACCES;
    }
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    if (r < 0) {
        kr_free(*fds, *fds ? *size : 0);
        *fds = NULL;
    }
    return r;
}

/* ---- Who may ---- */

int kr_ask_dumpable(struct kr_task *t) {
    struct kr_proc *p = t->proc;
    if (__atomic_load_n(&p->flags, __ATOMIC_RELAXED) & KR_PROCF_UNDUMPABLE)
        return 0;
    /* A change of the effective ids ends it (commit_creds()). */
    return (u32)kr_sys0(__NR_geteuid) == p->dump_uid && (u32)kr_sys0(__NR_getegid) == p->dump_gid;
}

static u64 effective_caps(u32 pid) {
    char rel[32];
    size_t size, len;
    u64 caps = 0;
    kr_snprintf(rel, sizeof rel, "%u/status", pid);
    char *text = pid ? kr_proc_slurp(rel, &size, &len) : NULL;
    const char *p = text ? after(text, "CapEff:") : NULL;
    if (p)
        caps = hex_of(p);
    kr_free(text, text ? size : 0);
    return caps;
}

#define CAP(c) (1ULL << (c))

/* __ptrace_may_access(PTRACE_MODE_READ_FSCREDS) for a payload, and cap_ptrace_access_check(). The asker's
 * user namespace is ours, or it would not have asked; a monitor that was taken over could: it gains what its
 * capabilities say, in the container. A list of descriptors is what the directory's own mode allows, too. */
static int may_look(struct kr_task *t, const struct cred *c, enum op op) {
    u32 uid[3], gid[3];
    u64 caps = effective_caps(c->pid);
    if (caps & CAP(CAP_SYS_PTRACE))
        return 1;
    if (op == FDS && caps & (CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH)))
        return 1;
    if (__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS)
        return 0;
    if (kr_sys3(__NR_getresuid, &uid[0], &uid[1], &uid[2]) < 0 ||
        kr_sys3(__NR_getresgid, &gid[0], &gid[1], &gid[2]) < 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (uid[i] != c->uid || gid[i] != c->gid)
            return 0;
    if (!kr_ask_dumpable(t))
        return 0;
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];
    if (kr_sys2(__NR_capget, &h, d) < 0)
        return 0;
    return !((d[0].permitted | (u64)d[1].permitted << 32) & ~caps);
}

/* ---- Answering ---- */

static long open_path(int dir, const char *path) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    return kr_sys4(__NR_openat2, (s64)dir, path, &how, sizeof how);
}

static long link_of(struct kr_task *t, enum kr_proc_entry entry, u32 n, u32 *mode) {
    char rel[64], name[64];
    *mode = 0;
    switch (entry) {
    case KR_PE_EXE: {
        int dir = kr_proc_self_fd(rel, sizeof rel, t->proc->exe_fd);
        return open_path(dir, rel);
    }
    case KR_PE_CWD: /* not ".": that asks for the right to search it */
    case KR_PE_ROOT: {
        int dir =
            kr_proc_handle(rel, sizeof rel, entry == KR_PE_CWD ? "thread-self/cwd" : "thread-self/root");
        return open_path(dir, rel);
    }
    case KR_PE_FD_N: {
        long copy = kr_fd_dup(n, F_DUPFD_CLOEXEC, 0); /* never one of ours */
        if (copy < 0)
            return copy == -EBADF ? -ENOENT : copy;
        *mode = (u32)kr_sys2(__NR_fcntl, copy, F_GETFL);
        int dir = kr_proc_self_fd(rel, sizeof rel, (int)copy);
        long fd = open_path(dir, rel);
        kr_sys1(__NR_close, copy);
        return fd;
    }
    case KR_PE_NS_N: {
        const char *ns = kr_proc_ns_name(n);
        if (!ns)
            return -ENOENT;
        kr_snprintf(name, sizeof name, "thread-self/ns/%s", ns);
        int dir = kr_proc_handle(rel, sizeof rel, name);
        return open_path(dir, rel);
    }
    default:
        return -EACCES;
    }
}

/* The payload's open descriptors but `but`, as a sealed memfd. */
static long list_fds(int but) {
    char path[64], dents[4096];
    size_t room = 4096, n = 0, size = room * sizeof(u32);
    u32 *v = kr_alloc(size);
    int dir = kr_proc_handle(path, sizeof path, "thread-self/fd"), none;
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC};
    long r = v ? 0 : -ENOMEM, got = 0;
    kr_fd_hide_begin(); /* a directory of the procfs without masks: no other thread may copy it */
    long fd = kr_sys4(__NR_openat2, (s64)dir, path, &how, sizeof how);
    while (r == 0 && fd >= 0 && (got = kr_sys3(__NR_getdents64, fd, dents, sizeof dents)) > 0)
        for (long at = 0; at < got && r == 0;) {
            u16 len;
            const char *name = dents + at + 19, *end;
            memcpy(&len, dents + at + 16, 2);
            at += len;
            u64 number = kr_strtou(name, &end);
            if (end == name || *end || (long)number == fd || (int)number == but)
                continue;
            if (n == room) {
                u32 *more = room < FDS_MAX ? kr_realloc(v, size, size * 2) : NULL;
                if (!more) {
                    r = -ENOMEM;
                    break;
                }
                v = more;
                room *= 2;
                size *= 2;
            }
            v[n++] = (u32)number;
        }
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    kr_fd_hide_end(-EBADF, 0, &none);
    r = r < 0 ? r : fd < 0 ? fd : got;
    if (r == 0) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if (!kr_fd_hidden(v[i]))
                v[kept++] = v[i];
        r = kr_procview_publish(v, kept * sizeof *v, "fds");
    }
    kr_free(v, size);
    return r;
}

static void reply(int to, s32 status, u32 mode, int fd) {
    struct answer a = {.cookie = kr_board_cookie(), .status = status, .mode = mode};
    struct control c = {.len = 20, .level = SOL_SOCKET_, .type = SCM_RIGHTS_, .fd = fd};
    struct {
        void *base;
        u64 len;
    } iov = {&a, sizeof a};
    struct msg m = {.iov = (void *)&iov, .iov_len = 1, .control = &c, .control_len = sizeof c};
    if (fd < 0) {
        m.control = NULL;
        m.control_len = 0;
    }
    kr_sys3(__NR_sendmsg, to, &m, MSG_QUIET);
}

static void answer(struct kr_task *t, u32 request, u32 n) {
    enum op op = request >> 20 & 15;
    enum kr_proc_entry entry = request >> 24;
    struct name name = {.family = FAMILY};
    struct cred c;
    char text[8];
    kr_snprintf(text, sizeof text, "%05x", request & 0xfffff);
    memcpy(name.text + 1, text, 5);
    if (kr_sys3(__NR_connect, serve_fd, &name, NAME_SIZE) < 0 || !peer_of(serve_fd, &c))
        return; /* given up meanwhile, or in another network namespace */
    u32 mode = 0;
    long r = -EACCES;
    if (!may_look(t, &c, op))
        ;
    else if (op == LINK)
        r = link_of(t, entry, n, &mode);
    else if (op == TEXT)
        r = kr_procview_own(t, entry, n);
    else if (op == FDS)
        r = list_fds(kr_files_shared(t) ? -1 : serve_fd);
    reply(serve_fd, r < 0 ? (s32)r : 0, mode, r < 0 ? -1 : (int)r);
    if (r >= 0)
        kr_sys1(__NR_close, r);
}

void kr_ask_serve(struct kr_task *t) {
    u32 request = t->ask_request, n = t->ask_n;
    __atomic_and_fetch(&t->asked, ~KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    kr_lock(&serve_lock);
    if (sock_new(t, &serve_fd) >= 0)
        answer(t, request, n);
    sock_drop(t, &serve_fd);
    kr_unlock(&serve_lock);
}

/* ---- Being interrupted ---- */

extern const char kr_intr_begin[], kr_intr_syscall[], kr_intr_restart[];

/* A clock that costs nothing to read, and what it showed at some earlier time: calls that are limited in time
 * note their beginning (sys/table.c). */
static u64 base_ticks, base_ns;

static u64 ticks_to_ns(u64 ticks) {
    u64 now = kr_now(), t1 = kr_ticks(), span = t1 - base_ticks;
    if (!base_ns || now <= base_ns || span < 1024)
        return 0;
    u64 rate = ((now - base_ns) << 10) / (span >> 10); /* ns per 2^20 ticks */
    return (ticks >> 10) * rate >> 10;
}

void kr_ask_clock(void) {
    base_ns = kr_now();
    base_ticks = kr_ticks();
}

void kr_ask_hold(int hold) {
    kr_sigset bus = KR_SIGBIT(SIGBUS);
    kr_sys4(__NR_rt_sigprocmask, hold ? SIG_BLOCK : SIG_UNBLOCK, &bus, 0, 8);
}

void kr_ask_ready(struct kr_task *t, int first) {
    if (!first)
        t->sigmask &= ~KR_SIGBIT(SIGBUS); /* blocked by kr_ask_hold */
    kr_ask_hold(0);
}

void kr_ask_interrupted(struct kr_task *t, struct kr_ucontext *uc) {
    u64 rip = uc->mc.rip;
    if (t->sig_caught) {
        /* A signal of the payload's came first, and its context waits below this one; or it was caught after
         * this one was taken from the queue: then nothing more may be caught until it is delivered. */
        uc->mask = KR_HOST_BLOCK_ALL;
        return;
    }
    int in_call = t->nr != ~0ULL, ended = 0;
    if (rip >= (u64)kr_intr_begin && rip <= (u64)kr_intr_syscall) {
        ended = rip == (u64)kr_intr_syscall;
        uc->mc.rip = (u64)kr_intr_restart;
    } else if (rip == (u64)kr_intr_syscall + 2 && uc->mc.rax == (u64)-EINTR && in_call) {
        ended = 1;
        uc->mc.rax = (u64)-KR_ERESTART;
    }
    if (ended && in_call) {
        if (!t->resumed)
            t->waited = 0;
        if (t->began)
            t->waited += ticks_to_ns(kr_ticks() - t->began);
        t->resumed = 1;
        t->resume_rip = kr_regs(t)->rip - 2;
    }
}

int kr_ask_caught(struct kr_task *t, const siginfo_t *si, struct kr_ucontext *uc) {
    if (si->si_code != SI_QUEUE || !kr_board_cookie() || (u64)si->si_value.sival_ptr != kr_board_cookie())
        return 0;
    t->ask_request = (u32)si->si_pid;
    t->ask_n = si->si_uid;
    if (!t->runs) { /* starting: nothing may be given up, and there is nothing to tell yet */
        t->ask_early = 1;
        return 1;
    }
    __atomic_or_fetch(&t->asked, KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    t->was_asked = 1;
    kr_ask_interrupted(t, uc);
    return 1;
}

/* Calls that a handled signal ends with EINTR whatever SA_RESTART says (signal(7)). */
static int always_ends(const struct kvm_regs *r) {
    switch (r->rax) {
    case __NR_futex: /* with a timeout */
        return (r->rsi & (u64)FUTEX_CMD_MASK) == FUTEX_WAIT && r->r10;
    case __NR_pause:
    case __NR_rt_sigsuspend:
    case __NR_rt_sigtimedwait:
    case __NR_nanosleep:
    case __NR_clock_nanosleep:
    case __NR_poll:
    case __NR_ppoll:
    case __NR_select:
    case __NR_pselect6:
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
    case 441: /* epoll_pwait2 */
    case __NR_semop:
    case __NR_semtimedop:
    case __NR_msgsnd:
    case __NR_msgrcv:
    case __NR_io_getevents:
        return 1;
    }
    return 0;
}

void kr_ask_signal(struct kr_task *t, u64 flags) {
    struct kvm_regs *r = kr_regs(t);
    u8 insn[2];
    if (!t->resumed)
        return;
    t->resumed = 0;
    /* Still at the SYSCALL that was to be executed again? */
    if (t->nr != ~0ULL || kr_copy_in(insn, r->rip, 2) < 0 || insn[0] != 0x0f || insn[1] != 0x05 ||
        r->rip != t->resume_rip)
        return;
    if ((flags & SA_RESTART) && !always_ends(r))
        return;
    r->rip += 2;
    r->rax = (u64)-EINTR;
}

static s64 *left(struct kr_task *t, u64 ptr) {
    s64 ts[2];
    if (kr_copy_in(ts, ptr, sizeof ts) < 0 || ts[0] < 0 || ts[1] < 0 || ts[1] > 999999999)
        return NULL; /* the kernel's answer is an error */
    if (ts[0] < (s64)(1ULL << 32)) {
        s64 ns = ts[0] * 1000000000L + ts[1];
        ns = ns > (s64)t->waited ? ns - (s64)t->waited : 0;
        ts[0] = ns / 1000000000L;
        ts[1] = ns % 1000000000L;
    }
    memcpy(t->left, ts, sizeof ts);
    return t->left;
}

void kr_ask_adjust(struct kr_task *t, u64 nr, u64 a[6]) {
    u32 i;
    switch (nr) {
    case __NR_poll:
        i = 2;
        goto ms;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
        i = 3;
    ms:
        if ((s32)a[i] > 0) {
            u64 ns = (u64)(u32)a[i] * 1000000;
            a[i] = ns > t->waited ? (ns - t->waited + 999999) / 1000000 : 0;
        }
        return;
    case __NR_nanosleep:
        if (a[1] == a[0]) /* the kernel has written there what remains */
            return;
        i = 0;
        break;
    case __NR_clock_nanosleep:
        if (a[1] & 1 /* TIMER_ABSTIME */ || a[3] == a[2])
            return;
        i = 2;
        break;
    case __NR_rt_sigtimedwait:
        i = 2;
        break;
    case __NR_futex:
        if ((a[1] & (u64)FUTEX_CMD_MASK) != FUTEX_WAIT)
            return;
        i = 3;
        break;
    case __NR_semtimedop:
    case 441: /* epoll_pwait2 */
        i = 3;
        break;
    default:
        return;
    }
    if (a[i] && left(t, a[i]))
        a[i] = (u64)t->left;
}
