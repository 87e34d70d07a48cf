/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's side of ask.h: a monitor answers the question of another monitor. This file decides who may ask
 * and which descriptors an answer carries.
 *
 * State: the socket of the answer, under serve_lock.
 */
#include "ask_wire.h"
#include "../process/board.h"
#include "../process/domain.h"
#include "../machine/mm.h"
#include "../process/process.h"
#include "../process/nnp.h"
#include "../process/quiesce.h"
#include "../lib/kr_linux.h"
#include <linux/capability.h>
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/openat2.h>

static struct kr_lock serve_lock;
static struct kr_sock serve_sock = {.fd = -1};

void kr_answer_after_fork(void) { kr_lock_init(&serve_lock); }

void kr_answer_heir(const struct kr_lock *l) {
    if (l == &serve_lock)
        serve_sock.fd = -1;
}

/* ---- The question ---- */

struct question {
    u32 request, n;
    u64 domain, who;
};

/* The last question, as a whole. The host's handler may put another one in its place between two loads; the handler runs on
 * this thread, so it has written a whole question whenever the thread goes on. */
static struct question question_of(struct kr_task *t) {
    struct question q;
    u32 count;
    do {
        count = __atomic_load_n(&t->ask_count, __ATOMIC_SEQ_CST);
        q.request = __atomic_load_n(&t->ask_request, __ATOMIC_SEQ_CST);
        q.n = __atomic_load_n(&t->ask_n, __ATOMIC_SEQ_CST);
        q.domain = __atomic_load_n(&t->ask_domain, __ATOMIC_SEQ_CST);
        q.who = __atomic_load_n(&t->ask_who, __ATOMIC_SEQ_CST);
    } while (__atomic_load_n(&t->ask_count, __ATOMIC_SEQ_CST) != count);
    return q;
}

/* ---- Who may ask ---- */

static u64 effective_caps(struct kr_task *t, u32 pid) {
    char rel[32];
    size_t size, len;
    u64 caps = 0;
    kr_snprintf(rel, sizeof rel, "%u/status", pid);
    char *text = pid ? kr_proc_slurp(t, rel, &size, &len) : NULL;
    const char *p = text ? kr_line_after(text, "CapEff:") : NULL;
    if (p)
        caps = kr_hex_of(p);
    kr_free(text, text ? size : 0);
    return caps;
}

#define CAP(c) (1ULL << (c))
#define CAPS_MODE                                                                                            \
    (CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH)) /* they pass the modes of files and directories */

/* Whether the mode of the entry, or of its directory fd, is for the owner only (0400, 0500). */
static int is_owners(enum kr_ask_op op, enum kr_proc_entry entry) {
    return op == KR_ASK_TEXT  ? entry == KR_PE_ENVIRON || entry == KR_PE_AUXV
           : op == KR_ASK_FDS ? entry == KR_PE_FD
                              : entry == KR_PE_FD_N;
}

/* The owner of such an entry of the payload's process (task_dump_owner() in fs/proc/base.c). The monitor's own entries have the owner
 * of an undumpable process. */
static u32 owner_of(struct kr_task *t) {
    struct statx sx;
    char rel[64];
    if (kr_dumpable_view(t))
        return (u32)kr_sys0(__NR_geteuid);
    int dir = kr_proc_handle(rel, sizeof rel, "thread-self/environ");
    return kr_sys5(__NR_statx, (s64)dir, rel, 0, STATX_UID, &sx) < 0 ? ~0u : sx.stx_uid;
}

/* The checks of __ptrace_may_access(PTRACE_MODE_READ_FSCREDS), cap_ptrace_access_check() and hook_ptrace_access_check()
 * (landlock) in the kernel, applied to the payload's view, and those of the entry's mode. The asker is in the same user namespace (may_ask). A monitor under the
 * payload's control could forge its flag on the board and its domain: it gains what its capabilities allow inside the
 * container. For the list of descriptors, the mode of the directory fd decides, and the capabilities that override it: it is
 * not asked whether the caller may trace (proc_fd_permission(); proc_fdinfo_permission() asks). */
static int may_look(struct kr_task *t, const struct cred *c, enum kr_ask_op op, enum kr_proc_entry entry,
                    u64 domain) {
    u32 uid[3], gid[3];
    u64 caps = effective_caps(t, c->pid);
    int by_mode = op == KR_ASK_FDS && entry == KR_PE_FD;
    if (!by_mode && !kr_domain_admits(t, domain))
        return 0;
    if (is_owners(op, entry) && !(caps & CAPS_MODE) && c->uid != owner_of(t))
        return 0;
    if (caps & CAP(CAP_SYS_PTRACE))
        return 1;
    if (by_mode && caps & CAPS_MODE)
        return 1;
    if (__atomic_load_n(&t->proc->flags, __ATOMIC_RELAXED) & KR_PROCF_USERNS)
        return 0;
    if (kr_sys3(__NR_getresuid, &uid[0], &uid[1], &uid[2]) < 0 ||
        kr_sys3(__NR_getresgid, &gid[0], &gid[1], &gid[2]) < 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (uid[i] != c->uid || gid[i] != c->gid)
            return 0;
    if (!kr_dumpable_view(t))
        return 0;
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];
    if (kr_sys2(__NR_capget, &h, d) < 0)
        return 0;
    return !((d[0].permitted | (u64)d[1].permitted << 32) & ~caps);
}

/* ---- Answering ---- */

/* In a slot, so that no other thread can exchange what the answer carries. */
static long open_path(struct kr_task *t, int dir, const char *path) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    const u64 a[4] = {(u64)(s64)dir, (u64)path, (u64)&how, sizeof how};
    return kr_slot_make(t, -1, __NR_openat2, a);
}

static long link_of(struct kr_task *t, enum kr_proc_entry entry, u32 n, u32 *mode) {
    char rel[64], name[64];
    *mode = 0;
    switch (entry) {
    case KR_PE_EXE: {
        int dir = kr_proc_self_fd(rel, sizeof rel, t->proc->exe_fd);
        return open_path(t, dir, rel);
    }
    case KR_PE_CWD: /* not ".": a walk of "." needs search permission */
    case KR_PE_ROOT: {
        int dir =
            kr_proc_handle(rel, sizeof rel, entry == KR_PE_CWD ? "thread-self/cwd" : "thread-self/root");
        return open_path(t, dir, rel);
    }
    case KR_PE_FD_N: {
        const struct open_how how = {.flags = O_PATH | O_CLOEXEC};
        int dir = kr_proc_self_fd(rel, sizeof rel, (int)n);
        const u64 a[4] = {(u64)(s64)dir, (u64)rel, (u64)&how, sizeof how};
        long flags = kr_fd_hidden(n) ? -EBADF : kr_sys2(__NR_fcntl, n, F_GETFL);
        if (flags < 0)
            return flags == -EBADF ? -ENOENT : flags;
        *mode = (u32)flags;
        long fd = kr_slot_make_of(t, n, __NR_openat2, a);
        return fd == -EBADF ? -ENOENT : fd;
    }
    case KR_PE_NS_N: {
        const char *ns = kr_proc_ns_name(n);
        if (!ns)
            return -ENOENT;
        kr_snprintf(name, sizeof name, "thread-self/ns/%s", ns);
        int dir = kr_proc_handle(rel, sizeof rel, name);
        return open_path(t, dir, rel);
    }
    default:
        return -EACCES;
    }
}

/* The payload's open descriptors except `but`, as a sealed memfd. The memfd's number or -errno. */
static long list_fds(struct kr_task *t, int but) {
    struct kr_numbers l;
    u32 kept = 0;
    long r = kr_proc_numbers(t, "thread-self/fd", &l);
    for (u32 i = 0; r == 0 && i < l.n; i++)
        if ((int)l.v[i] != l.dir && (int)l.v[i] != but && kr_fd_listed(l.v[i]))
            l.v[kept++] = l.v[i];
    if (r == 0)
        r = kr_procview_publish(t, l.v, kept * sizeof *l.v, "fds");
    kr_numbers_free(&l);
    return r;
}

/* Whether an answer may carry fd: an O_PATH descriptor, or a sealed memfd open for reading. An answer never
 * carries an open file. */
static int may_pass(int fd, enum kr_ask_op op) {
    long flags = kr_sys2(__NR_fcntl, fd, F_GETFL), seals = kr_sys2(__NR_fcntl, fd, F_GET_SEALS);
    if (op == KR_ASK_LINK)
        return flags >= 0 && flags & O_PATH;
    return flags >= 0 && !(flags & (O_ACCMODE | O_PATH)) && seals >= 0 &&
           (seals & KR_TEXT_SEALS) == KR_TEXT_SEALS;
}

static void reply(int to, u64 tag, s32 status, u32 mode, int fd) {
    struct answer a = {.tag = tag, .status = status, .mode = mode};
    struct control c = {.len = 20, .level = SOL_SOCKET, .type = SCM_RIGHTS, .fd = fd};
    struct {
        void *base;
        u64 len;
    } iov = {&a, sizeof a};
    struct kr_msghdr m = {.iov = (u64)&iov, .iovlen = 1, .control = (u64)&c, .controllen = sizeof c};
    if (fd < 0) {
        m.control = 0;
        m.controllen = 0;
    }
    kr_sys3(__NR_sendmsg, to, &m, MSG_QUIET);
}

/* Whether the listener c is the monitor that has asked, of this container and in the container's own user namespace. A monitor
 * in another user namespace has capabilities that do not count here. Another process may have taken the
 * socket's name since the question, and it may be in another landlock domain. */
static int may_ask(struct kr_task *t, const struct cred *c, u64 who) {
    struct kr_board_entry e;
    return c->pid && kr_ask_board(t, c->pid, &e) == 0 && !(e.flags & KR_BOARDF_USERNS) &&
           kr_domain_is(who, c->pid, e.since);
}

static void answer(struct kr_task *t, const struct question *q) {
    enum kr_ask_op op = q->request >> 20 & 15;
    enum kr_proc_entry entry = q->request >> 24;
    u32 n = q->n;
    struct name name = {.family = AF_UNIX};
    struct cred c;
    char text[8];
    kr_snprintf(text, sizeof text, "%05x", q->request & 0xfffff);
    memcpy(name.text + 1, text, 5);
    if (kr_sys3(__NR_connect, serve_sock.fd, &name, NAME_SIZE) < 0 || !kr_sock_peer(serve_sock.fd, &c))
        return; /* the asker has given up, or is in another network namespace */
    if (!may_ask(t, &c, q->who))
        return;
    u32 mode = 0;
    long r = -EACCES;
    if (!may_look(t, &c, op, entry, q->domain))
        ;
    else if (op == KR_ASK_LINK)
        r = link_of(t, entry, n, &mode);
    else if (op == KR_ASK_TEXT)
        r = kr_procview_own(t, entry, n);
    else if (op == KR_ASK_FDS)
        r = list_fds(t, serve_sock.hidden ? -1 : serve_sock.fd);
    /* A pipe (kr_text_publish) is in no slot, so another thread could have put something else there. */
    int passes = r >= 0 && (kr_fd_hidden((u64)r) || !serve_sock.hidden) && may_pass((int)r, op);
    u64 tag = kr_answer_tag(q->request, n, c.pid, (u32)kr_sys0(__NR_getpid));
    reply(serve_sock.fd, tag, r < 0 ? (s32)r : passes ? 0 : -EACCES, mode, passes ? (int)r : -1);
    kr_slot_free((int)r);
}

int kr_ask_goes_on(struct kr_task *t, long done) {
    if (!t->was_asked || t->sig_caught || (done <= 0 && done != -KR_ERESTART))
        return 0;
    if (t->asked & KR_ASKED_STAND)
        kr_quiesce_stand(t);
    if (t->asked & KR_ASKED_QUESTION)
        kr_ask_serve(t);
    return 1;
}

void kr_ask_serve(struct kr_task *t) {
    /* First: a question that comes from here on is either copied or served by the next call. */
    __atomic_and_fetch(&t->asked, ~KR_ASKED_QUESTION, __ATOMIC_SEQ_CST);
    struct question q = question_of(t);
    kr_lock(&serve_lock);
    /* Who listens may be a program of the payload: it can send nothing to a socket that is shut down. */
    if (kr_sock_new(t, &serve_sock) >= 0 && kr_sys2(__NR_shutdown, serve_sock.fd, SHUT_RD) == 0)
        answer(t, &q);
    kr_sock_drop(&serve_sock);
    kr_unlock(&serve_lock);
}
