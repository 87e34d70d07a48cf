/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's own entries of /proc whose kernel text would show the monitor: made from the kernel's text
 * and the mm's VMA array.
 *
 * Each is a snapshot, taken at the open, in a sealed memfd opened for reading: reads at any offset are
 * consistent with each other. (The kernel makes its text anew at each read from 0; a program that keeps such
 * a file open for that sees old values.)
 *
 * State: none. Locks: mm->lock while the VMA array is copied, sig_lock for the signal lines of status.
 */
#include "procfs.h"
#include "ask.h"
#include "../process/board.h"
#include "../process/core.h"
#include "../machine/fdtab.h"
#include "../process/nnp.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../process/above.h"
#include <linux/fcntl.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/openat2.h>
#include <linux/resource.h>

struct text {
    char *buf;
    size_t len, room;
    int failed;
};

static int grow(struct text *o, size_t more) {
    if (o->len + more <= o->room)
        return 1;
    size_t room = o->room ? o->room : 8192;
    while (room < o->len + more)
        room *= 2;
    char *p = o->failed ? NULL : kr_realloc(o->buf, o->room, room);
    if (!p) {
        o->failed = 1;
        return 0;
    }
    o->buf = p;
    o->room = room;
    return 1;
}

static void add(struct text *o, const char *s, size_t n) {
    if (!grow(o, n))
        return;
    memcpy(o->buf + o->len, s, n);
    o->len += n;
}

__attribute__((format(printf, 2, 3))) static void addf(struct text *o, const char *fmt, ...) {
    char line[192];
    va_list ap;
    va_start(ap, fmt);
    int n = kr_vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    add(o, line, (size_t)KR_MIN(n, (int)sizeof line - 1));
}

static u64 hex(const char *s, const char **end) {
    u64 v = 0;
    for (;; s++) {
        if (*s >= '0' && *s <= '9')
            v = v << 4 | (u64)(*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            v = v << 4 | (u64)(*s - 'a' + 10);
        else
            break;
    }
    *end = s;
    return v;
}

struct vmas {
    struct kr_vma *v;
    u32 n;
    size_t size;
};

static void copy_vmas(struct kr_mm *mm, struct vmas *out) {
    kr_lock(&mm->lock);
    out->size = (mm->nvma ? mm->nvma : 1) * sizeof *out->v;
    out->v = kr_alloc(out->size);
    out->n = out->v ? mm->nvma : 0;
    if (out->v)
        memcpy(out->v, mm->vma, mm->nvma * sizeof *out->v);
    kr_unlock(&mm->lock);
}

/* Index of the first mapping that ends above addr. */
static u32 first_above(const struct vmas *m, u64 addr) {
    u32 lo = 0, hi = m->n;
    while (lo < hi) {
        u32 mid = lo + (hi - lo) / 2;
        if (m->v[mid].end <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A line of maps, taken apart. */
struct line {
    u64 start, end, off, ino;
    char perms[4];
    const char *dev; /* up to the inode's blank */
    size_t dev_len;
    const char *name; /* "" if none */
    size_t name_len;
};

static int parse_line(const char *s, const char *end, struct line *l) {
    const char *p;
    l->start = hex(s, &p);
    if (p == s || *p != '-')
        return 0;
    l->end = hex(p + 1, &p);
    if (*p != ' ' || end - p < 7)
        return 0;
    memcpy(l->perms, p + 1, 4);
    l->off = hex(p + 6, &p);
    if (*p != ' ')
        return 0;
    l->dev = ++p;
    while (p < end && *p != ' ')
        p++;
    l->dev_len = (size_t)(p - l->dev);
    l->ino = kr_strtou(p < end ? p + 1 : p, &p);
    while (p < end && *p == ' ')
        p++;
    l->name = p;
    l->name_len = p < end ? (size_t)(end - p) : 0;
    return 1;
}

/* One line for the overlap of a kernel mapping and one of the payload's, as the kernel writes it. */
static void put_mapping(struct text *o, const struct line *l, const struct kr_vma *v) {
    u64 start = KR_MAX(l->start, v->start), end = KR_MIN(l->end, v->end);
    const char *name = l->name;
    size_t n = l->name_len;
    if (v->flags & (KR_VMA_HEAP | KR_VMA_STACK | KR_VMA_VDSO)) {
        name = v->flags & KR_VMA_HEAP    ? "[heap]"
               : v->flags & KR_VMA_STACK ? "[stack]"
               : v->prot & PROT_EXEC     ? "[vdso]"
                                         : "[vvar]";
        n = strlen(name);
    } else if ((n == 6 && memcmp(name, "[heap]", 6) == 0) || (n == 7 && memcmp(name, "[stack]", 7) == 0)) {
        n = 0; /* what the kernel goes by are single addresses */
    }
    size_t at = o->len;
    addf(o, "%08lx-%08lx %c%c%c%c %08lx %.*s %lu ", (unsigned long)start, (unsigned long)end,
         v->prot & PROT_READ ? 'r' : '-', v->prot & PROT_WRITE ? 'w' : '-', v->prot & PROT_EXEC ? 'x' : '-',
         l->perms[3], (unsigned long)(l->ino ? l->off + (start - l->start) : l->off), (int)l->dev_len, l->dev,
         (unsigned long)l->ino);
    if (n) {
        while (o->len - at < 73 && !o->failed)
            add(o, " ", 1);
        add(o, name, n);
    }
    add(o, "\n", 1);
}

static void make_maps(struct text *o, const char *text, const struct vmas *m) {
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        struct line l;
        if (parse_line(s, end, &l))
            for (u32 i = first_above(m, l.start); i < m->n && m->v[i].start < l.end; i++)
                put_mapping(o, &l, &m->v[i]);
        s = end + 1;
    }
}

/* smaps: the header of each entry is a line of maps; the figures below it are kept for mappings of the
 * payload's. Where one host mapping holds several of the payload's (the host knows no PROT_EXEC), all the
 * figures are told of the first. */
static void make_smaps(struct text *o, const char *text, const struct vmas *m) {
    int keep = 0;
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        struct line l;
        const char *p;
        hex(s, &p);
        if (p != s && *p == '-' && parse_line(s, end, &l)) {
            u32 i = first_above(m, l.start);
            keep = i < m->n && m->v[i].start < l.end;
            if (keep) {
                struct kr_vma v = m->v[i];
                v.start = KR_MAX(l.start, v.start);
                v.end = l.end;
                put_mapping(o, &l, &v);
            }
        } else if (keep) {
            add(o, s, (size_t)(end + 1 - s));
        }
        s = end + 1;
    }
}

static void make_numa(struct text *o, const char *text, const struct vmas *m) {
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n'), *p;
        if (!end)
            break;
        u64 at = hex(s, &p);
        u32 i = first_above(m, at);
        if (i < m->n && m->v[i].start <= at)
            add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

static void make_rollup(struct text *o, const char *text, const struct vmas *m) {
    const char *end = strchr(text, '\n');
    if (!end || !m->n)
        return;
    addf(o, "%08lx-%08lx ---p 00000000 00:00 0 ", (unsigned long)m->v[0].start,
         (unsigned long)m->v[m->n - 1].end);
    while (o->len < 73 && !o->failed)
        add(o, " ", 1);
    add(o, "[rollup]\n", 9);
    add(o, end + 1, strlen(end + 1));
}

static int begins(const char *s, const char *key) { return strncmp(s, key, strlen(key)) == 0; }

/* What the monitor keeps of a thread for its status. */
struct thread_view {
    int mode, nnp;
    u32 filters;
};

/* Of the thread that `rel` names by its last number ("12/status", "self/task/13/status"). One that is ending
 * gets the caller's: it has none any more. */
static struct thread_view thread_view(struct kr_task *t, const char *rel) {
    const char *base = strrchr(rel, '/');
    while (base && base > rel && base[-1] != '/')
        base--;
    u64 tid = base ? kr_strtou(base, NULL) : 0;
    kr_lock(&t->mm->lock);
    struct kr_task *o = t->mm->tasks;
    while (o && (o->tid != tid || o->proc != t->proc))
        o = o->next;
    if (!o)
        o = t;
    struct thread_view v = {kr_seccomp_mode(o), kr_nnp_view(o), kr_seccomp_count(o)};
    kr_unlock(&t->mm->lock);
    return v;
}

static void make_status(struct text *o, const char *text, struct kr_proc *proc, struct thread_view view) {
    kr_sigset ignored = 0, caught = 0;
    kr_lock(&proc->sig_lock);
    for (int sig = 1; sig <= KR_NSIG; sig++) {
        if (proc->action[sig].handler == 1)
            ignored |= KR_SIGBIT(sig);
        else if (proc->action[sig].handler)
            caught |= KR_SIGBIT(sig);
    }
    kr_unlock(&proc->sig_lock);
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        if (begins(s, "Seccomp:"))
            addf(o, "Seccomp:\t%d\n", view.mode);
        else if (begins(s, "Seccomp_filters:"))
            addf(o, "Seccomp_filters:\t%u\n", view.filters);
        else if (begins(s, "NoNewPrivs:"))
            addf(o, "NoNewPrivs:\t%d\n", view.nnp);
        else if (begins(s, "Threads:"))
            addf(o, "Threads:\t%u\n", __atomic_load_n(&proc->refs, __ATOMIC_RELAXED));
        else if (begins(s, "SigIgn:"))
            addf(o, "SigIgn:\t%016lx\n", (unsigned long)ignored);
        else if (begins(s, "SigCgt:"))
            addf(o, "SigCgt:\t%016lx\n", (unsigned long)caught);
        else
            add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

/* Of stat only the number of threads (field 20) is not the payload's. The name in field 2 may hold anything.
 */
static void make_stat(struct text *o, const char *text, u32 threads) {
    const char *p = strrchr(text, ')'), *after;
    for (int field = 2; p && field < 20; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    if (!p) {
        add(o, text, strlen(text));
        return;
    }
    kr_strtou(p, &after);
    add(o, text, (size_t)(p - text));
    addf(o, "%u", threads);
    add(o, after, strlen(after));
}

static long memory(struct text *o, u64 start, u64 end) {
    if (end < start || end - start > (64u << 20) || !grow(o, end - start + 1))
        return -ENOMEM;
    long r = kr_copy_in(o->buf, start, end - start);
    o->len = r < 0 ? 0 : end - start;
    return r;
}

/* Where RLIMIT_FSIZE, which holds for a memfd, too, and kills by SIGXFSZ, is smaller than the text: a pipe
 * with the text in it. */
static long publish_pipe(const struct text *o) {
    s32 fds[2];
    long r = kr_sys2(__NR_pipe2, fds, O_CLOEXEC | O_NONBLOCK); /* what does not fit fails: nobody reads yet */
    if (r < 0)
        return r;
    if (o->len > 4096)
        kr_sys3(__NR_fcntl, fds[1], F_SETPIPE_SZ, o->len);
    r = kr_sys3(__NR_write, fds[1], o->buf, o->len);
    kr_sys1(__NR_close, fds[1]);
    if (r == (long)o->len && kr_sys3(__NR_fcntl, fds[0], F_SETFL, 0) == 0)
        return fds[0];
    kr_sys1(__NR_close, fds[0]);
    return r < 0 ? r : -ENOMEM;
}

/* Writes the text into the memfd fd, which is in nobody's reach, and seals it. 0 or -errno. */
static long fill(int fd, const struct text *o) {
    for (size_t at = 0; at < o->len;) {
        long n = kr_sys3(__NR_write, fd, o->buf + at, o->len - at);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? n : -EIO;
        at += (size_t)n;
    }
    return kr_sys3(__NR_fcntl, fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

/* A sealed memfd with the text, opened anew for reading only. Another thread that puts something else in the place of the new
 * descriptor has that refused by F_ADD_SEALS: only a memfd of its own would be opened again. */
static long publish(struct kr_task *t, const struct text *o, const char *name) {
    u64 limit[2];
    if (kr_sys4(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, limit) == 0 && limit[0] < o->len)
        return publish_pipe(o);
    char label[64], link[64];
    kr_snprintf(label, sizeof label, KR_VIEW_LABEL "%s", name);
    long fd = kr_slot_put(t, (int)kr_sys2(__NR_memfd_create, label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return fd;
    long r = fill((int)fd, o);
    if (r >= 0) {
        struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
        int dir = kr_proc_self_fd(link, sizeof link, (int)fd);
        r = kr_sys4(__NR_openat2, (s64)dir, link, &how, sizeof how);
    }
    kr_slot_free((int)fd);
    return r;
}

long kr_procview_publish(struct kr_task *t, const void *data, size_t n, const char *name) {
    struct text o = {.buf = (char *)(u64)data, .len = n};
    return publish(t, &o, name);
}

static u64 mask_of(const char *s) {
    const char *end;
    while (*s == ' ' || *s == '\t')
        s++;
    return hex(s, &end);
}

static void other_status(struct text *o, const char *text, const struct kr_board_entry *e, u32 workers) {
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        const char *colon = strchr(s, ':');
        u64 n = colon ? kr_strtou(colon + 2, NULL) : 0;
        if (begins(s, "Seccomp:"))
            addf(o, "Seccomp:\t%u\n", e->flags >> KR_BOARDF_SECCOMP_SHIFT & 3);
        else if (begins(s, "Seccomp_filters:"))
            addf(o, "Seccomp_filters:\t%u\n", e->flags >> KR_BOARDF_FILTERS_SHIFT & 0xffff);
        else if (begins(s, "NoNewPrivs:"))
            addf(o, "NoNewPrivs:\t%u\n", e->flags & KR_BOARDF_NNP);
        else if (begins(s, "Threads:"))
            addf(o, "Threads:\t%lu\n", (unsigned long)(n > workers ? n - workers : n));
        else if (begins(s, "SigIgn:"))
            addf(o, "SigIgn:\t%016lx\n",
                 (unsigned long)((mask_of(colon + 1) & ~KR_CORE_SIGNALS) | (e->ignored & KR_CORE_SIGNALS)));
        else if (begins(s, "SigCgt:"))
            addf(o, "SigCgt:\t%016lx\n",
                 (unsigned long)((mask_of(colon + 1) & ~KR_CORE_SIGNALS) | (e->caught & KR_CORE_SIGNALS)));
        else
            add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

long kr_procview_other(struct kr_task *t, enum kr_proc_entry entry, u32 pid, const char *rel) {
    struct kr_board_entry e;
    struct text o = {0};
    size_t size, len;
    if (kr_ask_board(t, pid, &e) < 0)
        return -ESRCH;
    char *kernel = kr_proc_slurp(t, rel, &size, &len);
    if (!kernel)
        return -ENOENT;
    u32 workers = (u32)kr_has_kvm_thread(t);
    if (entry == KR_PE_STATUS) {
        other_status(&o, kernel, &e, workers);
    } else {
        u64 n = 0;
        const char *p = strrchr(kernel, ')');
        for (int field = 2; p && field < 20; field++) {
            p = strchr(p, ' ');
            p = p ? p + 1 : NULL;
        }
        if (p)
            n = kr_strtou(p, NULL);
        make_stat(&o, kernel, n > workers ? (u32)n - workers : (u32)n);
    }
    const char *base = strrchr(rel, '/');
    long r = o.failed ? -ENOMEM : publish(t, &o, base + 1);
    kr_free(kernel, size);
    kr_free(o.buf, o.room);
    return r;
}

long kr_procview_own(struct kr_task *t, enum kr_proc_entry entry, u32 n) {
    static const struct {
        enum kr_proc_entry entry;
        const char *name;
    } texts[] = {{KR_PE_MAPS, "maps"},           {KR_PE_SMAPS, "smaps"}, {KR_PE_SMAPS_ROLLUP, "smaps_rollup"},
                 {KR_PE_NUMA_MAPS, "numa_maps"}, {KR_PE_AUXV, "auxv"},   {KR_PE_ENVIRON, "environ"},
                 {KR_PE_FDINFO_N, "fdinfo"}};
    char rel[64];
    for (size_t i = 0; i < KR_COUNT(texts); i++) {
        if (texts[i].entry != entry)
            continue;
        if (entry == KR_PE_FDINFO_N && kr_fd_hidden(n))
            return -ENOENT;
        if (entry == KR_PE_FDINFO_N)
            kr_snprintf(rel, sizeof rel, "thread-self/fdinfo/%u", n);
        else
            kr_snprintf(rel, sizeof rel, "thread-self/%s", texts[i].name);
        return kr_procview(t, entry, rel);
    }
    return -EACCES;
}

long kr_procview(struct kr_task *t, enum kr_proc_entry entry, const char *rel) {
    struct text o = {0};
    struct vmas m = {0};
    const char *base = strrchr(rel, '/');
    size_t size = 0, len;
    char *kernel = NULL;
    long r = 0;
    switch (entry) {
    case KR_PE_SYSCALL:
        add(&o, "running\n", 8);
        break;
    case KR_PE_ENVIRON:
        r = memory(&o, t->mm->env_start, t->mm->env_end);
        break;
    case KR_PE_AUXV:
        r = memory(&o, t->mm->auxv_addr, t->mm->auxv_addr + t->mm->auxv_size);
        break;
    default:
        kernel = kr_proc_slurp(t, rel, &size, &len);
        if (!kernel)
            return -EACCES;
        if (entry == KR_PE_STATUS) {
            make_status(&o, kernel, t->proc, thread_view(t, rel));
            break;
        }
        if (entry == KR_PE_STAT) {
            make_stat(&o, kernel, __atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED));
            break;
        }
        if (entry == KR_PE_FDINFO_N) {
            add(&o, kernel, len);
            break;
        }
        copy_vmas(t->mm, &m);
        if (!m.v)
            r = -ENOMEM;
        else if (entry == KR_PE_MAPS)
            make_maps(&o, kernel, &m);
        else if (entry == KR_PE_SMAPS)
            make_smaps(&o, kernel, &m);
        else if (entry == KR_PE_NUMA_MAPS)
            make_numa(&o, kernel, &m);
        else if (entry == KR_PE_SMAPS_ROLLUP)
            make_rollup(&o, kernel, &m);
        else
            r = -EACCES;
        kr_free(m.v, m.size);
        break;
    }
    if (o.failed)
        r = -ENOMEM;
    if (r == 0)
        r = publish(t, &o, base ? base + 1 : rel);
    if (kernel)
        kr_free(kernel, size);
    kr_free(o.buf, o.room);
    return r;
}
