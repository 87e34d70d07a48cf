/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's memory in status, stat and statm (proc(5)): the kernel's figures without what the monitor adds to them.
 *
 * Of its own process a monitor knows the payload's mappings, and finds its own resident pages with mincore(2) in the lines of
 * maps that lie outside of the window. It finds them once in a process, at the first look, because monitors add little after their start. For
 * another process the same figures are subtracted: both run the same monitor, and no process has to be asked, so one that
 * is stopped delays nobody, and the reader learns nothing that the kernel's text does not say.
 *
 * Of the payload's first stack natively only the part that was used is mapped, here all of it (process/stack.c). The monitor's own
 * stack, which begins with the same size, stands for it.
 *
 * State: what was found. Locks: mm->lock while the mappings are added up.
 */
#include "procsize.h"
#include "../machine/mm.h"
#include "../process/process.h"
#include <linux/mman.h>

#define KIB(pages) ((pages) * (KR_PAGE >> 10))
#define ROOM 4096u /* pages of one call of mincore(2) */

/* What the payload has mapped, in KiB: without its first stack and without the vDSO. */
struct mapped {
    u64 size, data;
};

/* What the calling process has found. Each word is atomic; size is 0 until then. */
static struct {
    struct kr_excess x;
    u64 stack;
} found;

static struct mapped mapped(struct kr_mm *mm) {
    struct mapped m = {0};
    kr_lock(&mm->lock);
    for (u32 i = 0; i < mm->nvma; i++) {
        const struct kr_vma *v = &mm->vma[i];
        if (v->flags & (KR_VMA_STACK | KR_VMA_VDSO))
            continue;
        m.size += (v->end - v->start) >> 10;
        if (v->prot & PROT_WRITE && !(v->flags & (KR_VMA_SHARED | KR_VMA_GROWSDOWN)))
            m.data += (v->end - v->start) >> 10; /* is_data_mapping() in mm/vma.h */
    }
    kr_unlock(&mm->lock);
    return m;
}

/* KiB of [start, end) that are resident. */
static u64 resident(u64 start, u64 end) {
    u64 pages = 0;
    u8 *in = kr_alloc(ROOM);
    for (u64 at = start; in && at < end; at += ROOM * KR_PAGE) {
        u64 n = KR_MIN((end - at) / KR_PAGE, (u64)ROOM);
        if (kr_sys3(__NR_mincore, at, n * KR_PAGE, in) < 0)
            break; /* [vsyscall]; another thread has ended, and its stack is gone */
        for (u64 i = 0; i < n; i++)
            pages += in[i] & 1;
    }
    kr_free(in, in ? ROOM : 0);
    return KIB(pages);
}

/* Adds a line of maps outside of the window. */
static void add_line(struct kr_excess *x, const char *s) {
    const char *p;
    u64 start = kr_text_hex(s, &p), end = kr_text_hex(*p == '-' ? p + 1 : p, &p);
    if (start < KR_WINDOW_END || *p != ' ' || p[4] != 'p')
        return;
    const char *inode = p + 6, *name;
    for (int field = 0; field < 2; field++) { /* behind offset and device */
        inode = strchr(inode, ' ');
        if (!inode)
            return;
        inode++;
    }
    if (kr_strtou(inode, &name)) { /* the monitor's file, which the kernel maps around each fault */
        u64 *where = p[2] == 'w' ? &x->anon : &x->file;
        *where += (end - start) >> 10;
    } else if (p[2] == 'w') {
        x->anon += resident(start, end);
    }
}

/* The figures of the calling process; threads: of the payload. */
static void look(struct kr_task *t, struct kr_excess *x) {
    size_t size, len;
    char *maps = kr_proc_slurp(t, "thread-self/maps", &size, &len);
    for (const char *s = maps; s && *s; s = strchr(s, '\n'), s = s ? s + 1 : NULL)
        add_line(x, s);
    kr_free(maps, maps ? size : 0);
    char *status = kr_proc_slurp(t, "self/status", &size, &len);
    const char *vm = status ? kr_line_after(status, "VmSize:") : NULL,
               *data = status ? kr_line_after(status, "VmData:") : NULL,
               *stack = status ? kr_line_after(status, "VmStk:") : NULL;
    if (vm && data && stack) {
        struct mapped m = mapped(t->mm);
        u64 native = m.size + kr_text_number(stack) + KR_EXCESS_VDSO;
        u64 more = (__atomic_load_n(&t->proc->refs, __ATOMIC_RELAXED) - 1) * KR_EXCESS_THREAD;
        x->size = kr_less(kr_text_number(vm), native + more);
        x->data = kr_less(kr_text_number(data), m.data + more);
        __atomic_store_n(&found.stack, kr_text_number(stack), __ATOMIC_RELAXED);
    }
    kr_free(status, status ? size : 0);
}

void kr_excess_of(struct kr_task *t, u32 threads, struct kr_excess *x) {
    *x = (struct kr_excess){0};
    if (!__atomic_load_n(&found.x.size, __ATOMIC_ACQUIRE)) {
        look(t, x);
        __atomic_store_n(&found.x.data, x->data, __ATOMIC_RELAXED);
        __atomic_store_n(&found.x.anon, x->anon, __ATOMIC_RELAXED);
        __atomic_store_n(&found.x.file, x->file, __ATOMIC_RELAXED);
        __atomic_store_n(&found.x.size, x->size, __ATOMIC_RELEASE);
    }
    x->size = __atomic_load_n(&found.x.size, __ATOMIC_RELAXED);
    x->data = __atomic_load_n(&found.x.data, __ATOMIC_RELAXED);
    x->anon = __atomic_load_n(&found.x.anon, __ATOMIC_RELAXED);
    x->file = __atomic_load_n(&found.x.file, __ATOMIC_RELAXED);
    if (threads > 1) {
        x->size += (threads - 1) * KR_EXCESS_THREAD;
        x->data += (threads - 1) * KR_EXCESS_THREAD;
    }
}

/* ---- Lines of status ---- */

/* Appends the line key with n KiB, as the kernel does. */
static void put(struct kr_text *o, const char *key, u64 n) { kr_text_addf(o, "%s\t%8lu kB\n", key, n); }

static u64 figure(const char *text, const char *key) {
    const char *p = kr_line_after(text, key);
    return p ? kr_text_number(p) : 0;
}

int kr_excess_line(struct kr_text *o, const char *text, const char *s, const struct kr_excess *x) {
    static const char *const keys[] = {
        "VmPeak:", "VmSize:", "VmHWM:", "VmRSS:", "RssAnon:", "RssFile:", "VmData:"};
    u32 i = 0;
    while (i < KR_COUNT(keys) && strncmp(s, keys[i], strlen(keys[i])) != 0)
        i++;
    if (i == KR_COUNT(keys))
        return 0;
    u64 n = kr_text_number(s + strlen(keys[i])),
        pages = KR_MIN(x->anon, figure(text, "RssAnon:")) + KR_MIN(x->file, figure(text, "RssFile:"));
    /* VmPeak counts the window, which a monitor maps as a whole for a moment (kr_host_take_window), and never more than that. The present
     * size stands in its place. */
    if (i == 0 && n >= (KR_HOST_LOW - KR_WINDOW_START) >> 10)
        n = figure(text, "VmSize:");
    const u64 less[] = {x->size, x->size, pages, pages, x->anon, x->file, x->data};
    put(o, keys[i], i == 2 || i == 3 ? kr_less_resident(n, pages, KIB(1)) : kr_less(n, less[i]));
    return 1;
}

/* ---- The own process ---- */

/* The number in field n of text, which begins with field `first`. */
static u64 field(const char *text, int first, int n) {
    for (; text && first < n; first++) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    return text ? kr_strtou(text, NULL) : 0;
}

void kr_excess_exact(struct kr_task *t, enum kr_proc_entry entry, const char *text, struct kr_excess *x) {
    u64 size = 0;
    const char *name = strrchr(text, ')');
    if (entry == KR_PE_STATUS)
        size = figure(text, "VmSize:");
    else if (entry == KR_PE_STATM)
        size = KIB(field(text, 1, 1));
    else if (name && name[1] == ' ')
        size = field(name + 2, 3, 23) >> 10;
    if (!size)
        return;
    /* What has grown since the look: the monitor's heap and page tables, which are data. */
    struct mapped m = mapped(t->mm);
    u64 now = kr_less(size, m.size + found.stack + KR_EXCESS_VDSO);
    x->data = kr_less(x->data + now, x->size);
    x->size = now;
}

/* ---- statm ---- */

void kr_excess_statm(struct kr_text *o, const char *text, const struct kr_excess *x) {
    const u64 less[] = {x->size, x->anon + x->file, x->file, 0, 0, x->data, 0};
    for (u32 i = 0; i < KR_COUNT(less); i++) {
        u64 n = kr_strtou(text, &text);
        while (*text == ' ')
            text++;
        u64 left = i == 1 ? kr_less_resident(n, less[i] / KIB(1), 1) : kr_less(n, less[i] / KIB(1));
        kr_text_addf(o, "%s%lu", i ? " " : "", left);
    }
    kr_text_add(o, "\n", 1);
}
