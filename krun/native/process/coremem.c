/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a core file: which mappings are dumped (vma_dump_size() in fs/coredump.c), and how they are
 * written (dump_emit() and dump_user_range()).
 *
 * The list of mappings is the kernel's (/proc/self/smaps), because the kernel knows which mappings have
 * MADV_DONTDUMP, are I/O, are of deleted files, or were never written. The protections are the payload's,
 * from mm->vma, because the host maps nothing executable. No state.
 */
#include "core.h"
#include "../machine/mm.h"
#include "../machine/site.h"
#include "../machine/usercopy.h"
#include "../lib/kr_linux.h"

/* Bits of /proc/PID/coredump_filter (core(5)). */
#define ANON_PRIVATE 1u
#define ANON_SHARED 2u
#define MAPPED_PRIVATE 4u
#define MAPPED_SHARED 8u
#define ELF_HEADERS 16u
#define HUGE_PRIVATE 32u
#define HUGE_SHARED 64u
#define DEFAULT_FILTER 0x33u

#define CHUNK 16384u

void kr_core_add(struct kr_core_bytes *b, const void *data, size_t n) {
    if (b->failed)
        return;
    if (b->n + n > b->room) {
        size_t room = KR_MAX(b->room * 2, b->n + n + 4096);
        u8 *p = kr_realloc(b->p, b->room, room);
        if (!p) {
            b->failed = 1;
            return;
        }
        b->p = p;
        b->room = room;
    }
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

/* ---- what is mapped ---- */

/* A mapping of the host's process, as smaps describes it. */
struct host_map {
    u64 start, end, offset;
    int shared, file, deleted, written, dont, io, huge;
    u32 name; /* as in struct kr_core_segment */
};

static u64 hex(const char **s) {
    u64 v = 0;
    for (;; ++*s) {
        char c = **s;
        if (c >= '0' && c <= '9')
            v = v * 16 + (u64)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (u64)(c - 'a') + 10;
        else
            return v;
    }
}

static int ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !memcmp(s + n - m, end, m);
}

static u32 filter(void) {
    char text[16];
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, "self/coredump_filter", O_RDONLY | O_CLOEXEC, 0), n = -1;
    if (fd >= 0) {
        n = kr_sys3(__NR_read, fd, text, sizeof text - 1);
        kr_sys1(__NR_close, fd);
    }
    if (n <= 0)
        return DEFAULT_FILTER;
    text[n] = 0;
    const char *p = text;
    return (u32)hex(&p);
}

/* How much of a mapping is dumped, as vma_dump_size(). The first page of an executable file is recognised by
 * its ELF magic. */
static u64 dump_size(const struct host_map *h, const struct kr_vma *v, u64 start, u64 end, u32 wanted) {
    u64 whole = end - start;
    char magic[4];
    if (v->flags & KR_VMA_VDSO)
        return whole;
    if (h->dont)
        return 0;
    if (h->huge)
        return wanted & (h->shared ? HUGE_SHARED : HUGE_PRIVATE) ? whole : 0;
    if (h->io)
        return 0;
    if (h->shared)
        return wanted & (h->deleted || !h->file ? ANON_SHARED : MAPPED_SHARED) ? whole : 0;
    if (h->written && wanted & ANON_PRIVATE)
        return whole;
    if (!h->file)
        return 0;
    if (wanted & MAPPED_PRIVATE)
        return whole;
    if (wanted & ELF_HEADERS && !h->offset && start == h->start && v->prot & PROT_READ &&
        kr_copy_in(magic, start, 4) == 0 && !memcmp(magic, "\177ELF", 4))
        return KR_PAGE;
    return 0;
}

/* Adds the payload's parts of one mapping of the host's process. Lock: mm->lock. */
static void add_segments(struct kr_core_map *m, struct kr_mm *mm, const struct host_map *h, u32 wanted) {
    for (struct kr_vma *v = kr_vma_find(mm, h->start); v && v < mm->vma + mm->nvma && v->start < h->end;
         v++) {
        struct kr_core_segment s = {.start = KR_MAX(h->start, v->start),
                                    .end = KR_MIN(h->end, v->end),
                                    .prot = v->prot,
                                    .name = h->file ? h->name : 0};
        s.offset = h->offset + (s.start - h->start);
        s.size = dump_size(h, v, s.start, s.end, wanted);
        kr_core_add(&m->segments, &s, sizeof s);
    }
}

const char *kr_core_path(const char *line) {
    for (u32 field = 0; field < 5; field++) {
        while (*line && *line != ' ')
            line++;
        while (*line == ' ')
            line++;
    }
    return *line == '/' ? line : "";
}

/* "start-end perms offset dev inode   path" */
static void first_line(struct host_map *h, const char *p, struct kr_core_bytes *names) {
    const char *path = kr_core_path(p);
    memset(h, 0, sizeof *h);
    h->start = hex(&p);
    p++;
    h->end = hex(&p);
    h->shared = p[4] == 's';
    p += 6;
    h->offset = hex(&p);
    if (!*path)
        return;
    h->file = 1;
    h->deleted = ends_with(path, " (deleted)");
    h->name = (u32)names->n + 1;
    kr_core_add(names, path, strlen(path) + 1);
}

static void other_line(struct host_map *h, const char *p) {
    if (!strncmp(p, "Anonymous:", 10) || !strncmp(p, "Swap:", 5)) {
        p = strchr(p, ':') + 1;
        while (*p == ' ')
            p++;
        h->written |= kr_strtou(p, NULL) != 0;
    } else if (!strncmp(p, "VmFlags:", 8)) {
        for (p += 8; p[0] == ' ' && p[1] && p[2]; p += 3) {
            h->dont |= p[1] == 'd' && p[2] == 'd';
            h->io |= p[1] == 'i' && p[2] == 'o';
            h->huge |= p[1] == 'h' && p[2] == 't';
        }
    }
}

static long list_mappings(struct kr_task *t, struct kr_core_map *m) {
    u32 wanted = filter();
    char *text = kr_alloc(CHUNK + 1);
    long fd = text ? kr_sys4(__NR_openat, kr_boot.fd_proc, "self/smaps", O_RDONLY | O_CLOEXEC, 0) : -ENOMEM;
    if (fd < 0) {
        kr_free(text, CHUNK + 1);
        return fd;
    }
    struct host_map h = {0};
    size_t have = 0;
    long n;
    kr_lock(&t->mm->lock); /* relatives run on */
    while ((n = kr_sys3(__NR_read, fd, text + have, CHUNK - have)) > 0) {
        have += (size_t)n;
        text[have] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            if (*line >= 'A' && *line <= 'Z') {
                other_line(&h, line);
                continue;
            }
            if (h.end && h.start < KR_WINDOW_END)
                add_segments(m, t->mm, &h, wanted);
            first_line(&h, line, &m->names);
        }
        have -= (size_t)(line - text);
        if (have == CHUNK) { /* no line is that long, because a path has at most 4096 bytes */
            n = -EIO;
            break;
        }
        memmove(text, line, have);
    }
    if (n == 0 && h.end && h.start < KR_WINDOW_END)
        add_segments(m, t->mm, &h, wanted);
    kr_unlock(&t->mm->lock);
    kr_sys1(__NR_close, fd);
    kr_free(text, CHUNK + 1);
    return n < 0 ? n : m->segments.failed || m->names.failed ? -ENOMEM : 0;
}

void kr_core_save_mappings(struct kr_core *k) {
    if (!k->error)
        k->error = list_mappings(k->t, &k->map);
}

/* ---- writing ---- */

static void write_all(struct kr_core_out *o, u64 from, u64 n) {
    while (n && !o->ended) {
        long r = kr_sys3(__NR_write, o->fd, from, n);
        if (r == -EINTR)
            continue;
        if (r <= 0) {
            o->ended = 1;
            return;
        }
        from += (u64)r;
        n -= (u64)r;
    }
}

/* Writes the hole in front of the next data. Returns whether n more bytes are within the limit. */
static int begin(struct kr_core_out *o, u64 n) {
    if (o->ended || o->written > o->limit || n > o->limit - o->written) {
        o->ended = 1;
        return 0;
    }
    if (o->hole && kr_sys3(__NR_lseek, o->fd, o->hole, SEEK_CUR) < 0) {
        o->ended = 1;
        return 0;
    }
    o->hole = 0;
    return 1;
}

void kr_core_emit(struct kr_core_out *o, const void *data, u64 n) {
    if (!begin(o, n))
        return;
    write_all(o, (u64)data, n);
    o->written += n;
}

void kr_core_hole(struct kr_core_out *o, u64 n) { o->hole += n; }

/* Writes one page, from guest memory, or by /proc/self/mem where the payload may not read it. */
static void write_page(struct kr_core_out *o, u64 addr) {
    u8 page[KR_PAGE];
    if (kr_copy_in(page, addr, sizeof page) == 0 ||
        (o->mem >= 0 && kr_sys4(__NR_pread64, o->mem, page, sizeof page, addr) == (long)sizeof page)) {
        kr_sites_original(kr_self()->mm, addr, page, sizeof page);
        kr_core_emit(o, page, sizeof page);
    } else {
        kr_core_hole(o, sizeof page);
    }
}

/* Writes a segment. Private pages that were never touched become holes, because reading them would allocate
 * them (FOLL_DUMP in the kernel). /proc/self/pagemap says which pages are present or swapped; PAGES entries
 * are read at a time. */
#define PAGES 512

void kr_core_write_segment(struct kr_core_out *o, const struct kr_core_segment *s) {
    u64 *entry = kr_alloc(PAGES * sizeof *entry);
    long fd = kr_sys4(__NR_openat, kr_boot.fd_proc, "self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    u64 end = s->start + s->size;
    for (u64 at = s->start; at < end && !o->ended;) {
        u64 n = KR_MIN((end - at) / KR_PAGE, (u64)PAGES);
        int known = !s->name && fd >= 0 && entry &&
                    kr_sys4(__NR_pread64, fd, entry, n * 8, at / KR_PAGE * 8) == (long)(n * 8);
        for (u64 i = 0; i < n && !o->ended; i++, at += KR_PAGE) {
            if (known && !(entry[i] >> 62)) /* bit 63: present, 62: swapped */
                kr_core_hole(o, KR_PAGE);
            else
                write_page(o, at);
        }
    }
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
    kr_free(entry, PAGES * sizeof *entry);
}
