/* SPDX-License-Identifier: Apache-2.0
 *
 * maps, smaps, numa_maps, smaps_rollup (proc(5)) of the payload: made from the kernel's text, which lists the
 * monitor's mappings as well, and from the mm's VMA array, which knows the payload's.
 *
 * State: none. Locks: mm->lock while the VMA array is copied.
 */
#include "proctext.h"
#include "../machine/site.h"
#include <linux/mman.h>

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

/* The parts of a line of maps. */
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
    l->start = kr_text_hex(s, &p);
    if (p == s || *p != '-')
        return 0;
    l->end = kr_text_hex(p + 1, &p);
    if (*p != ' ' || end - p < 7)
        return 0;
    memcpy(l->perms, p + 1, 4);
    l->off = kr_text_hex(p + 6, &p);
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

/* One line in the kernel's format for the overlap of a host mapping l and a mapping v of the payload. */
static void put_mapping(struct kr_text *o, const struct line *l, const struct kr_vma *v) {
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
        n = 0; /* the kernel names them by the monitor's addresses */
    }
    size_t at = o->len;
    kr_text_addf(o, "%08lx-%08lx %c%c%c%c %08lx %.*s %lu ", (unsigned long)start, (unsigned long)end,
                 v->prot & PROT_READ ? 'r' : '-', v->prot & PROT_WRITE ? 'w' : '-',
                 v->prot & PROT_EXEC ? 'x' : '-', l->perms[3],
                 (unsigned long)(l->ino ? l->off + (start - l->start) : l->off), (int)l->dev_len, l->dev,
                 (unsigned long)l->ino);
    if (n) {
        while (o->len - at < 73 && !o->failed)
            kr_text_add(o, " ", 1);
        kr_text_add(o, name, n);
    }
    kr_text_add(o, "\n", 1);
}

static void put_line(struct kr_text *o, const struct line *l, const struct vmas *m) {
    for (u32 i = first_above(m, l->start); i < m->n && m->v[i].start < l->end; i++)
        put_mapping(o, l, &m->v[i]);
}

/* Whether b goes on where a ends, and only the patching of a site has made two of them (machine/site.h). */
static int goes_on(const struct kr_mm *mm, const struct line *a, const struct line *b) {
    return a->end == b->start && a->ino == b->ino && b->off == a->off + (b->start - a->start) &&
           !memcmp(a->perms, b->perms, sizeof a->perms) && a->dev_len == b->dev_len &&
           !memcmp(a->dev, b->dev, a->dev_len) && kr_site_edge(mm, b->start);
}

static void make_maps(struct kr_text *o, const char *text, const struct kr_mm *mm, const struct vmas *m) {
    struct line l, next;
    l.end = 0;
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        if (parse_line(s, end, &next)) {
            if (l.end && goes_on(mm, &l, &next)) {
                l.end = next.end;
            } else {
                if (l.end)
                    put_line(o, &l, m);
                l = next;
            }
        }
        s = end + 1;
    }
    if (l.end)
        put_line(o, &l, m);
}

/* smaps: the header of each entry is a line of maps. The figures below it are kept if the mapping is the
 * payload's. One host mapping may contain several mappings of the payload, because host mappings have no
 * PROT_EXEC: then the first one has all the figures. */
static void make_smaps(struct kr_text *o, const char *text, const struct vmas *m) {
    int keep = 0;
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n');
        if (!end)
            break;
        struct line l;
        const char *p;
        kr_text_hex(s, &p);
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
            kr_text_add(o, s, (size_t)(end + 1 - s));
        }
        s = end + 1;
    }
}

static void make_numa(struct kr_text *o, const char *text, const struct vmas *m) {
    for (const char *s = text; *s;) {
        const char *end = strchr(s, '\n'), *p;
        if (!end)
            break;
        u64 at = kr_text_hex(s, &p);
        u32 i = first_above(m, at);
        if (i < m->n && m->v[i].start <= at)
            kr_text_add(o, s, (size_t)(end + 1 - s));
        s = end + 1;
    }
}

static void make_rollup(struct kr_text *o, const char *text, const struct vmas *m) {
    const char *end = strchr(text, '\n');
    if (!end || !m->n)
        return;
    kr_text_addf(o, "%08lx-%08lx ---p 00000000 00:00 0 ", (unsigned long)m->v[0].start,
                 (unsigned long)m->v[m->n - 1].end);
    while (o->len < 73 && !o->failed)
        kr_text_add(o, " ", 1);
    kr_text_add(o, "[rollup]\n", 9);
    kr_text_add(o, end + 1, strlen(end + 1));
}

long kr_procmaps(struct kr_mm *mm, enum kr_proc_entry entry, const char *kernel, struct kr_text *o) {
    struct vmas m;
    long r = 0;
    copy_vmas(mm, &m);
    if (!m.v)
        return -ENOMEM;
    if (entry == KR_PE_MAPS)
        make_maps(o, kernel, mm, &m);
    else if (entry == KR_PE_SMAPS)
        make_smaps(o, kernel, &m);
    else if (entry == KR_PE_NUMA_MAPS)
        make_numa(o, kernel, &m);
    else if (entry == KR_PE_SMAPS_ROLLUP)
        make_rollup(o, kernel, &m);
    else
        r = -EACCES;
    kr_free(m.v, m.size);
    return r;
}
