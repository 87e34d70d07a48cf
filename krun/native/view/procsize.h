/* SPDX-License-Identifier: Apache-2.0
 *
 * The payload's memory in status, stat and statm: the kernel's figures without the monitor's (procsize.c).
 */
#ifndef KR_PROCSIZE_H
#define KR_PROCSIZE_H

#include "proctext.h"

/* What the monitor adds to the figures of a process, in KiB: of VmSize, VmData, RssAnon, RssFile. */
struct kr_excess {
    u64 size, data, anon, file;
};

#define KR_EXCESS_VDSO                                                                                       \
    32u /* the kernel's vDSO and its data, which every process has (Linux 6.1 to 6.18: 24 to 32) */
#define KR_EXCESS_THREAD                                                                                     \
    80u /* a thread's stack and its guard (process.h), and its part of the vCPU's pages */

static inline u64 kr_less(u64 n, u64 less) { return n > less ? n - less : 0; }
/* The same for resident memory, one of which is the least: a process just forked may have less of the monitor's than the one that looks. */
static inline u64 kr_less_resident(u64 n, u64 less, u64 one) { return n ? KR_MAX(kr_less(n, less), one) : 0; }
/* The number at s, behind blanks and tabs. */
static inline u64 kr_text_number(const char *s) {
    while (*s == ' ' || *s == '\t')
        s++;
    return kr_strtou(s, NULL);
}

/* The figures of a process of this container whose payload has so many threads, as far as they are known without a question: those
 * of the calling process. */
void kr_excess_of(struct kr_task *t, u32 threads, struct kr_excess *x);
/* Makes the sizes exact for the calling process. text: the kernel's, of status, stat or statm. */
void kr_excess_exact(struct kr_task *t, enum kr_proc_entry entry, const char *text, struct kr_excess *x);
/* Appends the payload's line in place of the line s of a text of status. 0: the line is none of these. */
int kr_excess_line(struct kr_text *o, const char *text, const char *s, const struct kr_excess *x);
/* Appends the payload's text in place of a text of statm. */
void kr_excess_statm(struct kr_text *o, const char *text, const struct kr_excess *x);

#endif
