/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's view of the entries of /proc whose kernel text would show the monitor: status, stat, environ,
 * auxv, fdinfo/N, syscall; maps and its relatives by procmaps.c.
 *
 * A view is a snapshot, made at the open, in a sealed memfd that is open for reading: reads at all offsets
 * are consistent with each other. The kernel makes its text anew at each read from offset 0. A program that
 * keeps an entry open and reads it again sees old values.
 *
 * State: none. Locks: mm->lock while the list of tasks is walked, sig_lock for the signal lines of status.
 */
#include "procsize.h"
#include "ask.h"
#include "place.h"
#include "../abi/boot.h"
#include "../process/board.h"
#include "../process/core.h"
#include "../machine/fdtab.h"
#include "../process/nnp.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../process/above.h"

static int begins(const char *s, const char *key) { return strncmp(s, key, strlen(key)) == 0; }

/* Values of a thread that the monitor knows and status shows. */
struct thread_view {
    int mode, nnp;
    u32 filters;
};

/* The values of the thread of w. A thread that has ended, or whose number is not known, has no values: those of the
 * caller. */
static struct thread_view thread_view(struct kr_task *t, const struct kr_proc_name *w) {
    u64 tid = !(w->numbers & KR_NUMBERS_MINE) ? 0 : w->tid ? w->tid : w->pid;
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

static void make_status(struct kr_text *o, const char *text, struct kr_proc *proc, struct thread_view view,
                        const struct kr_excess *x) {
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
            kr_text_addf(o, "Seccomp:\t%d\n", view.mode);
        else if (begins(s, "Seccomp_filters:"))
            kr_text_addf(o, "Seccomp_filters:\t%u\n", view.filters);
        else if (begins(s, "NoNewPrivs:"))
            kr_text_addf(o, "NoNewPrivs:\t%d\n", view.nnp);
        else if (begins(s, "Threads:"))
            kr_text_addf(o, "Threads:\t%u\n", __atomic_load_n(&proc->refs, __ATOMIC_RELAXED));
        else if (begins(s, "SigIgn:"))
            kr_text_addf(o, "SigIgn:\t%016lx\n", (unsigned long)ignored);
        else if (begins(s, "SigCgt:"))
            kr_text_addf(o, "SigCgt:\t%016lx\n", (unsigned long)caught);
        else if (!kr_excess_line(o, text, s, x))
            kr_text_add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

/* Fields of stat that have addresses (proc_pid_stat(5)). The kernel gives those of another process to a reader that may
 * trace it. No monitor may trace another; but one that has just been executed by an ordinary user is dumpable until its first
 * system call, and the addresses are the monitor's. */
static int is_address(int field) { return (field >= 26 && field <= 30) || (field >= 45 && field <= 51); }

/* stat, with another number of threads (field 20; ~0: the kernel's) and, for another process, with the addresses that a
 * reader gets that may not trace it: 1 for the bounds of the text, else 0 (do_task_stat() in fs/proc/array.c). Of the
 * calling process, only addresses in the payload's window are shown: the kernel may have refused the payload's bounds, and
 * then has the monitor's (kr_publish_mm). The instruction and stack pointer are left out, which the kernel shows of a thread
 * that ends. x: what is left out of the sizes. The name in field 2 may contain any character. */
static void make_stat(struct kr_text *o, const char *text, u32 threads, int other,
                      const struct kr_excess *x) {
    const char *p = strrchr(text, ')'), *end;
    if (!p || p[1] != ' ')
        return;
    kr_text_add(o, text, (size_t)(p + 1 - text));
    p++;
    for (int field = 3; *p == ' '; field++, p = end) {
        end = p + 1;
        while (*end && *end != ' ' && *end != '\n')
            end++;
        int hidden = is_address(field) &&
                     (other || field == 29 || field == 30 || kr_strtou(p + 1, NULL) >= KR_WINDOW_END);
        if (field == 20 && threads != ~0u)
            kr_text_addf(o, " %u", threads);
        else if (field == 23) /* vsize, in bytes */
            kr_text_addf(o, " %lu", kr_less(kr_strtou(p + 1, NULL), x->size << 10));
        else if (field == 24) /* rss, in pages */
            kr_text_addf(o, " %lu",
                         kr_less_resident(kr_strtou(p + 1, NULL), (x->anon + x->file) / (KR_PAGE >> 10), 1));
        else if (hidden)
            kr_text_addf(o, " %d", (field == 26 || field == 27) && p[1] != '0');
        else
            kr_text_add(o, p, (size_t)(end - p));
    }
    kr_text_add(o, "\n", 1);
}

static long memory(struct kr_text *o, u64 start, u64 end) {
    if (end < start || end - start > (64u << 20) || !kr_text_grow(o, end - start + 1))
        return -ENOMEM;
    long r = kr_copy_in(o->buf, start, end - start);
    o->len = r < 0 ? 0 : end - start;
    return r;
}

long kr_procview_publish(struct kr_task *t, const void *data, size_t n, const char *name) {
    struct kr_text o = {.buf = (char *)(u64)data, .len = n};
    return kr_text_publish(t, &o, name);
}

static void other_status(struct kr_text *o, const char *text, const struct kr_board_entry *e, u32 workers,
                         const struct kr_excess *x) {
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        const char *colon = strchr(s, ':');
        u64 n = colon ? kr_strtou(colon + 2, NULL) : 0;
        if (begins(s, "Seccomp:"))
            kr_text_addf(o, "Seccomp:\t%u\n", e->flags >> KR_BOARDF_SECCOMP_SHIFT & 3);
        else if (begins(s, "Seccomp_filters:"))
            kr_text_addf(o, "Seccomp_filters:\t%u\n", e->flags >> KR_BOARDF_FILTERS_SHIFT & 0xffff);
        else if (begins(s, "NoNewPrivs:"))
            kr_text_addf(o, "NoNewPrivs:\t%u\n", e->flags & KR_BOARDF_NNP);
        else if (begins(s, "Threads:"))
            kr_text_addf(o, "Threads:\t%lu\n", (unsigned long)(n > workers ? n - workers : n));
        else if (begins(s, "SigIgn:"))
            kr_text_addf(
                o, "SigIgn:\t%016lx\n",
                (unsigned long)((kr_hex_of(colon + 1) & ~KR_CORE_SIGNALS) | (e->ignored & KR_CORE_SIGNALS)));
        else if (begins(s, "SigCgt:"))
            kr_text_addf(
                o, "SigCgt:\t%016lx\n",
                (unsigned long)((kr_hex_of(colon + 1) & ~KR_CORE_SIGNALS) | (e->caught & KR_CORE_SIGNALS)));
        else if (!kr_excess_line(o, text, s, x))
            kr_text_add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

/* The number of threads in a text of stat. */
static u32 threads_of(const char *stat) {
    const char *p = strrchr(stat, ')');
    for (int field = 2; p && field < 20; field++) {
        p = strchr(p, ' ');
        p = p ? p + 1 : NULL;
    }
    return p ? (u32)kr_strtou(p, NULL) : 0;
}

/* The kernel's text of the entry fd. NULL: the process has ended, or the kernel refuses the text. */
static char *text_of(struct kr_task *t, int fd, size_t *size) {
    char rel[48];
    size_t len;
    kr_snprintf(rel, sizeof rel, "thread-self/fd/%d", fd);
    return kr_proc_slurp(t, rel, size, &len);
}

long kr_procview_own_text(struct kr_task *t, const struct kr_proc_name *w, int fd) {
    struct kr_text o = {0};
    size_t size;
    char *kernel = text_of(t, fd, &size);
    if (!kernel)
        return -EACCES;
    u32 threads = __atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED);
    struct kr_excess x;
    kr_excess_of(t, threads, &x);
    kr_excess_exact(t, w->entry, kernel, &x);
    if (w->entry == KR_PE_STATUS)
        make_status(&o, kernel, t->proc, thread_view(t, w), &x);
    else if (w->entry == KR_PE_STATM)
        kr_excess_statm(&o, kernel, &x);
    else
        make_stat(&o, kernel, threads, 0, &x);
    long r = o.failed ? -ENOMEM : kr_text_publish(t, &o, kr_proc_entry_name(w->entry));
    kr_free(kernel, size);
    kr_free(o.buf, o.room);
    return r;
}

/* The number of threads of the process of w, from its text, or from its stat. */
static u32 threads_in(struct kr_task *t, const struct kr_proc_name *w, const char *text) {
    const char *line = w->entry == KR_PE_STATUS ? kr_line_after(text, "Threads:") : NULL;
    char rel[32];
    size_t size, len;
    if (line)
        return (u32)kr_text_number(line);
    if (w->entry == KR_PE_STAT)
        return threads_of(text);
    kr_snprintf(rel, sizeof rel, "%u/stat", kr_place_asked(w));
    char *stat = kr_proc_slurp(t, rel, &size, &len);
    u32 n = stat ? threads_of(stat) : 0;
    kr_free(stat, stat ? size : 0);
    return n;
}

/* status, stat or statm of another process. -ESRCH: the process is not known to be a monitor of this container (not for stat). */
static long of_all(struct kr_task *t, const struct kr_proc_name *w, int fd) {
    struct kr_board_entry e;
    struct kr_text o = {0};
    struct kr_excess x = {0};
    size_t size;
    int monitor = kr_ask_known(t, kr_place_asked(w), &e) >= 0;
    if (!monitor && w->entry != KR_PE_STAT)
        return -ESRCH;
    char *kernel = text_of(t, fd, &size);
    if (!kernel)
        return -ENOENT;
    u32 workers = (u32)kr_has_kvm_thread(t), n = threads_in(t, w, kernel);
    n = n > workers ? n - workers : n;
    if (monitor)
        kr_excess_of(t, n, &x);
    if (w->entry == KR_PE_STATUS)
        other_status(&o, kernel, &e, workers, &x);
    else if (w->entry == KR_PE_STATM)
        kr_excess_statm(&o, kernel, &x);
    else
        make_stat(&o, kernel, monitor ? n : ~0u, 1, &x);
    long r = o.failed ? -ENOMEM : kr_text_publish(t, &o, kr_proc_entry_name(w->entry));
    kr_free(kernel, size);
    kr_free(o.buf, o.room);
    return r;
}

/* Takes the strings of a boot block (abi/boot.h) out of text[n]. The length of the rest. */
static size_t without_block(char *text, size_t n) {
    static const char name[] = KR_BOOT_ENV;
    size_t kept = 0;
    for (size_t at = 0, size; at < n; at += size) {
        size = KR_MIN(strlen(text + at) + 1, n - at);
        if (begins(text + at, name))
            continue;
        memmove(text + kept, text + at, size);
        kept += size;
    }
    return kept;
}

/* Between its execve and kr_publish_mm a monitor's environment is the one that the kernel has laid out for it: the
 * payload's, and the boot block, whose strings all have that name. A payload whose own environment has such a name shows
 * the string to nobody here. */
static long environ_of(struct kr_task *t, int fd) {
    char rel[48];
    size_t size, len;
    kr_snprintf(rel, sizeof rel, "thread-self/fd/%d", fd);
    char *kernel = kr_proc_slurp(t, rel, &size, &len);
    if (!kernel)
        return -EACCES;
    long r = kr_procview_publish(t, kernel, without_block(kernel, len), "environ");
    kr_free(kernel, size);
    return r;
}

long kr_procview_other(struct kr_task *t, const struct kr_proc_name *w, int fd) {
    if (kr_proc_figures(w->entry))
        return of_all(t, w, fd);
    long r = kr_ask_text(t, w);
    return r == -ESRCH && w->entry == KR_PE_ENVIRON ? environ_of(t, fd) : r;
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
    struct kr_text o = {0};
    const char *base = strrchr(rel, '/');
    size_t size = 0, len;
    char *kernel = NULL;
    long r = 0;
    switch (entry) {
    case KR_PE_SYSCALL:
        kr_text_add(&o, "running\n", 8);
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
        if (entry == KR_PE_FDINFO_N) {
            kr_text_add(&o, kernel, len);
            break;
        }
        r = kr_procmaps(t->mm, entry, kernel, &o);
        break;
    }
    if (o.failed)
        r = -ENOMEM;
    if (r == 0)
        r = kr_text_publish(t, &o, base ? base + 1 : rel);
    if (kernel)
        kr_free(kernel, size);
    kr_free(o.buf, o.room);
    return r;
}
