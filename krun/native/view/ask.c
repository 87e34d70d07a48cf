/* SPDX-License-Identifier: Apache-2.0
 *
 * The asker's side of ask.h: a monitor asks the monitor of another process.
 *
 * State: the asker's two sockets, under ask_lock.
 */
#include "ask_wire.h"
#include "place.h"
#include "../process/board.h"
#include "../process/domain.h"
#include "../process/holder.h"
#include "../machine/mm.h"
#include "../process/process.h"
#include "../lib/kr_linux.h"
#include <asm/signal.h>
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/stat.h>

#define WAIT_MS 50u
#define WAITS 20u     /* one second in all if the owner sleeps or is in a long system call */
#define YOUNG 100u    /* clock ticks: one second; a fork takes a millisecond or two on an idle machine */
#define PATIENCE 200u /* ten seconds in all if the owner is runnable and starved: the machine is busy */
#define BUSY 20u /* clock ticks: an owner that computes so long without an answer is in a long system call */
static struct kr_lock ask_lock;
static struct kr_sock ask_sock = {.fd = -1}, ask_peer = {.fd = -1};

void kr_ask_after_fork(void) {
    kr_lock_init(&ask_lock);
    kr_answer_after_fork();
}

void kr_ask_heir(const struct kr_lock *l) {
    if (l == &ask_lock)
        ask_sock.fd = ask_peer.fd = -1; /* the dead holder's own, or still in the table of dynamic numbers */
    kr_answer_heir(l);
}

/* ---- Sockets ---- */

long kr_sock_new(struct kr_task *t, struct kr_sock *s) {
    s->hidden = kr_files_shared(t);
    if (!s->hidden)
        return s->fd = (int)kr_sys3(__NR_socket, AF_UNIX, SOCKET_KIND, 0);
    if (t->is_vfork)
        return -EACCES; /* a vfork child makes no hidden descriptors (fdtab.h) */
    kr_lock(&t->mm->lock);
    kr_fd_hide_begin(t->mm);
    long fd =
        kr_fd_hide_end(t->mm, (int)kr_sys3(__NR_socket, AF_UNIX, SOCKET_KIND, 0), KR_FD_FORK_DROPS, &s->fd);
    kr_unlock(&t->mm->lock);
    return fd;
}

long kr_sock_accept(struct kr_task *t, int from, struct kr_sock *s) {
    s->hidden = kr_files_shared(t);
    if (!s->hidden)
        return s->fd = (int)kr_sys4(__NR_accept4, from, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
    kr_lock(&t->mm->lock);
    kr_fd_hide_begin(t->mm);
    long fd = kr_fd_hide_end(t->mm, (int)kr_sys4(__NR_accept4, from, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK),
                             KR_FD_FORK_DROPS, &s->fd);
    kr_unlock(&t->mm->lock);
    return fd;
}

void kr_sock_drop(struct kr_sock *s) {
    if (s->hidden)
        kr_fd_drop(&s->fd);
    else
        kr_fd_shut(s->fd);
    s->fd = -1;
}

static void drop(void *s) { kr_sock_drop(s); }

/* Closes a socket in whose queue a program of the payload may have put something: a descriptor, too. */
static void drop_foreign(struct kr_task *t, struct kr_sock *s) {
    if (s->fd >= 0)
        kr_close_aside(t, s->fd, drop, s);
}

/* Closes the listener, whose name every process of the network namespace sees. Once it is shut down nobody connects, so one look
 * tells whether anybody waits. peer: free. */
static void drop_listener(struct kr_task *t, struct kr_sock *s, struct kr_sock *peer) {
    if (s->fd < 0)
        return;
    kr_sys2(__NR_shutdown, s->fd, SHUT_RD);
    long r = kr_sock_accept(t, s->fd, peer);
    if (r == -EAGAIN || r == -EINVAL) {
        kr_sock_drop(s);
        return;
    }
    drop_foreign(t, peer);
    drop_foreign(t, s);
}

int kr_sock_peer(int fd, struct cred *c) {
    u32 len = sizeof *c;
    return kr_sys5(__NR_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, c, &len) == 0 && len == sizeof *c;
}

/* ---- Entries of /proc/PID that every process may read ---- */

struct life { /* of /proc/PID/stat */
    char state;
    u64 start, cpu; /* of the process, or of a thread */
    u32 parent;
};

/* 0 or -ESRCH. */
static long stat_at(struct kr_task *t, const char *rel, struct life *out) {
    size_t size, len;
    char *text = kr_proc_slurp(t, rel, &size, &len);
    long r = text ? kr_stat_parse(text, &out->state, &out->start) : -ESRCH;
    out->parent = r == 0 ? kr_stat_parent(text) : 0;
    out->cpu = r == 0 ? kr_stat_cpu(text) : 0;
    kr_free(text, text ? size : 0);
    return r;
}

static long stat_of(struct kr_task *t, u32 pid, struct life *out) {
    char rel[32];
    kr_snprintf(rel, sizeof rel, "%u/stat", pid);
    return stat_at(t, rel, out);
}

/* Whether the first thread of the owner, which hears the question, still waits for the processor. *cpu: what it had used when
 * this was asked first; ~0: not asked yet. */
static int is_starved(struct kr_task *t, u32 pid, u64 *cpu) {
    char rel[48];
    struct life life;
    kr_snprintf(rel, sizeof rel, "%u/task/%u/stat", pid, pid);
    if (stat_at(t, rel, &life) < 0 || life.state != 'R')
        return 0;
    *cpu = KR_MIN(*cpu, life.cpu);
    return life.cpu - *cpu < BUSY;
}

/* 0; -ENOENT: not on the board; -ESRCH: no such process, or it cannot be on the board. */
static long entry_of(struct kr_task *t, u32 pid, struct life *life, struct kr_board_entry *out) {
    if (!pid || !kr_board_cookie() || !kr_same_numbers(t->proc) || stat_of(t, pid, life) < 0)
        return -ESRCH;
    return kr_board_find(pid, life->start, out);
}

long kr_ask_board(struct kr_task *t, u32 pid, struct kr_board_entry *out) {
    struct life life;
    return entry_of(t, pid, &life, out) < 0 ? -ESRCH : 0;
}

/* Whether process pid is in a pid namespace below the monitors': then it is never on the board. */
static int is_nested(struct kr_task *t, u32 pid) {
    char rel[32];
    size_t size, len;
    kr_snprintf(rel, sizeof rel, "%u/status", pid);
    char *text = kr_proc_slurp(t, rel, &size, &len);
    u32 n = text ? kr_place_count(text, &(u32){0}) : 0;
    kr_free(text, text ? size : 0);
    return n != 1;
}

/* Whether a process that is not on the board may be about to enter itself: a fork returns in the parent while the child still makes
 * its VM. One that is stopped does not. */
static int is_newborn(struct kr_task *t, u32 pid, const struct life *life) {
    struct life parent;
    struct kr_board_entry e;
    return !strchr("ZXTt", life->state) && kr_stat_now() - life->start < YOUNG &&
           entry_of(t, life->parent, &parent, &e) == 0 && !is_nested(t, pid);
}

/* kr_ask_known, and what stat says. */
static long known(struct kr_task *t, u32 pid, struct life *life, struct kr_board_entry *out) {
    const s64 moment[2] = {0, 1000000};
    long r;
    while ((r = entry_of(t, pid, life, out)) == -ENOENT && !t->sig_caught && is_newborn(t, pid, life))
        kr_sys2(__NR_nanosleep, moment, 0);
    return r < 0 ? -ESRCH : 0;
}

long kr_ask_known(struct kr_task *t, u32 pid, struct kr_board_entry *out) {
    struct life life;
    return known(t, pid, &life, out);
}

/* ---- Asking ---- */

/* The values go where the kernel's siginfo of a queued signal has room: si_pid, si_uid, and behind the value. */
static long kick(struct kr_task *t, u32 pid, u32 request, u32 n) {
    siginfo_t si;
    memset(&si, 0, sizeof si);
    si.si_signo = SIGBUS;
    si.si_code = KR_ASK_CODE;
    si.si_pid = (s32)request;
    si.si_uid = n;
    u64 domain = kr_domain_of(t), who = kr_domain_who();
    si.si_value.sival_ptr = (void *)kr_domain_tag((u64)request << 32 | n, domain, who);
    si.si_utime = (s64)domain;
    si.si_stime = (s64)who;
    return kr_sys3(__NR_rt_sigqueueinfo, pid, SIGBUS, &si);
}

/* Reads the owner's message, which has to have this tag. 0 and *fd (or -1), or -errno. */
static long receive(int from, u64 tag, struct answer *a, int *fd) {
    struct control c = {0};
    struct {
        void *base;
        u64 len;
    } iov = {a, sizeof *a};
    /* Room for one descriptor: the kernel installs as many as there is room for, and the sender may be a thread of
     * the owner's payload. */
    struct kr_msghdr m = {
        .iov = (u64)&iov, .iovlen = 1, .control = (u64)&c, .controllen = offsetof(struct control, pad)};
    struct kr_msghdr first = {.iov = (u64)&iov, .iovlen = 1};
    *fd = -1;
    /* First without its descriptor, which is nobody's business if the owner has not sent it. */
    long n = kr_sys3(__NR_recvmsg, from, &first, MSG_QUIET | MSG_PEEK);
    if (n < 0)
        return n;
    if (n != sizeof *a || a->tag != tag || a->status > 0 || a->status < -4095)
        return -EACCES;
    n = kr_sys3(__NR_recvmsg, from, &m, MSG_QUIET | MSG_CMSG_CLOEXEC);
    if (n >= 0 && m.controllen >= 20 && c.level == SOL_SOCKET && c.type == SCM_RIGHTS && c.len >= 20)
        *fd = c.fd;
    return n < 0 ? n : 0;
}

/* Waits WAIT_MS at most until socket a or b is readable, and answers the questions of other monitors
 * meanwhile. 1, 0 (timeout), or -KR_ERESTART. */
static long wait_for(struct kr_task *t, int a, int b) {
    struct {
        s32 fd;
        u16 events, revents;
    } p[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    s64 ts[2] = {0, WAIT_MS * 1000000L};
    for (;;) {
        long n = kr_call_intr(__NR_ppoll, (u64)p, 2, (u64)ts, 0, 8, 0);
        if (n != -KR_ERESTART && n != -EINTR)
            return n < 0 ? 0 : n > 0;
        if (t->asked != KR_ASKED_QUESTION || t->sig_caught)
            return -KR_ERESTART;
        kr_ask_serve(t);
        t->resumed = 0; /* the question interrupted this wait, not the payload's call */
    }
}

/* Whether the kernel would judge the caller by other ids than the owner knows of it: of a listener the kernel tells the effective
 * ids (SO_PEERCRED), and a look at /proc goes by those for files (PTRACE_MODE_FSCREDS). */
static int looks_as_other(void) {
    return kr_sys1(__NR_setfsuid, -1) != kr_sys0(__NR_geteuid) ||
           kr_sys1(__NR_setfsgid, -1) != kr_sys0(__NR_getegid);
}

/* One request. 0 with the answer and its descriptor, or an error of ask.h. */
static long ask(struct kr_task *t, u32 pid, enum kr_ask_op op, u32 sub, u32 n, struct answer *a, int *fd) {
    struct kr_board_entry e;
    struct name name = {.family = AF_UNIX};
    u32 len = sizeof name;
    struct life life;
    u64 cpu = ~0ULL;
    int proven = 0;
    *fd = -1;
    if (known(t, pid, &life, &e) < 0)
        return -ESRCH;
    if (life.state == 'Z' || life.state == 'X')
        return -ENOENT;
    if (life.state == 'T' || life.state == 't' || looks_as_other() ||
        __atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS)
        return -EACCES;
    kr_board_ask(pid, life.start);
    kr_lock(&ask_lock);
    long r = kr_sock_new(t, &ask_sock);
    if (r >= 0)
        r = kr_sys3(__NR_bind, ask_sock.fd, &name, 2); /* autobind: the kernel chooses the name (unix(7)) */
    if (r >= 0)
        r = kr_sys2(__NR_listen, ask_sock.fd, 4);
    if (r >= 0)
        r = kr_sys3(__NR_getsockname, ask_sock.fd, &name, &len);
    char digits[6] = "";
    memcpy(digits, name.text + 1, 5);
    u32 number = (u32)kr_hex_of(digits), request = number | (u32)op << 20 | sub << 24;
    if (r < 0 || len != NAME_SIZE || number >> 20) {
        r = -EACCES;
        goto out;
    }
    r = -EACCES;
    for (u32 waits = 0; waits < PATIENCE; waits++) {
        struct cred c;
        if (waits && waits % 4 == 0 && !is_starved(t, pid, &cpu) && waits >= WAITS)
            break;
        if (waits % 4 == 0) { /* again: the kernel drops a signal that is already pending */
            if (kick(t, pid, request, n) == -EPERM)
                break;
        }
        long ready = wait_for(t, ask_peer.fd < 0 ? ask_sock.fd : -1, ask_peer.fd);
        if (ready < 0) {
            r = ready;
            break;
        }
        if (!ready)
            continue;
        if (ask_peer.fd < 0) {
            if (kr_sock_accept(t, ask_sock.fd, &ask_peer) >= 0 &&
                !(kr_sock_peer(ask_peer.fd, &c) && c.pid == pid))
                drop_foreign(t, &ask_peer); /* not the owner */
            continue;
        }
        r = receive(ask_peer.fd, kr_answer_tag(request, n, (u32)kr_sys0(__NR_getpid), pid), a, fd);
        if (r == -EAGAIN) {
            r = -EACCES;
            continue;
        }
        proven = r == 0;
        if (r == 0)
            r = a->status;
        break;
    }
    if (proven)
        kr_sock_drop(&ask_peer);
    else
        drop_foreign(t, &ask_peer);
out:
    drop_listener(t, &ask_sock, &ask_peer);
    kr_unlock(&ask_lock);
    if (r < 0 && *fd >= 0) {
        kr_fd_shut(*fd);
        *fd = -1;
    }
    return r;
}

long kr_ask_link(struct kr_task *t, const struct kr_proc_name *w, u32 *mode) {
    struct answer a;
    int fd;
    long r = ask(t, kr_place_asked(w), KR_ASK_LINK, w->entry, (u32)w->n, &a, &fd);
    if (r < 0)
        return r;
    /* Only O_PATH: a descriptor without O_PATH would be an open file of another process. */
    long flags = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GETFL) : -1;
    if (flags < 0 || !(flags & O_PATH)) {
        kr_fd_shut(fd);
        return -EACCES;
    }
    *mode = a.mode;
    return fd;
}

/* The length in bytes of fd, which must be a sealed memfd open for reading only; otherwise -EACCES. */
static long sealed(int fd, u64 max) {
    struct statx sx;
    long has = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GET_SEALS) : -1;
    long flags = fd >= 0 ? kr_sys2(__NR_fcntl, fd, F_GETFL) : -1;
    if (has < 0 || (has & KR_TEXT_SEALS) != KR_TEXT_SEALS || flags < 0 || flags & (O_ACCMODE | O_PATH) ||
        kr_sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &sx) < 0 || sx.stx_size > max)
        return -EACCES;
    return (long)sx.stx_size;
}

long kr_ask_text(struct kr_task *t, const struct kr_proc_name *w) {
    struct answer a;
    int fd;
    long r = ask(t, kr_place_asked(w), KR_ASK_TEXT, w->entry, (u32)w->n, &a, &fd);
    if (r == 0)
        r = sealed(fd, TEXT_MAX);
    if (r < 0)
        kr_fd_shut(fd);
    return r < 0 ? r : fd;
}

long kr_ask_fds(struct kr_task *t, u32 pid, enum kr_proc_entry of, u32 **fds, u32 *n, size_t *size) {
    struct answer a;
    int fd;
    *fds = NULL;
    long r = ask(t, pid, KR_ASK_FDS, of, 0, &a, &fd);
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
    kr_fd_shut(fd);
    if (r < 0) {
        kr_free(*fds, *fds ? *size : 0);
        *fds = NULL;
    }
    return r;
}
