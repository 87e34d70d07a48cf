/* SPDX-License-Identifier: Apache-2.0
 *
 * A text that the payload reads instead of a text of the kernel: a growing buffer, and the descriptor that it
 * becomes. Used by the files that make such texts (procview.c, procmaps.c).
 */
#ifndef KR_PROCTEXT_H
#define KR_PROCTEXT_H

#include "procfs.h"

/* All zero: empty. The owner ends with kr_free(buf, room). After `failed` (no memory) nothing is added. */
struct kr_text {
    char *buf;
    size_t len, room; /* bytes */
    int failed;
};

/* Makes room for `more` bytes behind the text. Whether there is room. */
int kr_text_grow(struct kr_text *o, size_t more);
/* Appends n bytes at s. */
void kr_text_add(struct kr_text *o, const char *s, size_t n);
/* Appends at most 191 bytes, formatted (kr_vsnprintf). */
__attribute__((format(printf, 2, 3))) void kr_text_addf(struct kr_text *o, const char *fmt, ...);

/* A descriptor for reading, close-on-exec, that gives the text: a sealed memfd with the label KR_VIEW_LABEL
 * name, in a slot (kr_slot_make). -errno. */
long kr_text_publish(struct kr_task *t, const struct kr_text *o, const char *name);

/* The hexadecimal number (lower case, no prefix) at s; *end is behind its last digit. */
u64 kr_text_hex(const char *s, const char **end);
/* A pointer behind `key`, where a line of text begins with key; NULL if no line does. */
const char *kr_line_after(const char *text, const char *key);
/* The hexadecimal number (lower case) at s, behind blanks and tabs. */
u64 kr_hex_of(const char *s);

/* Appends the payload's view of maps, smaps, numa_maps or smaps_rollup. kernel: the kernel's text of that
 * entry. 0, -ENOMEM, or -EACCES for another entry (procmaps.c). */
long kr_procmaps(struct kr_mm *mm, enum kr_proc_entry entry, const char *kernel, struct kr_text *o);

#endif
