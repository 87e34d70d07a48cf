/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that start the monitor share.
 */
#ifndef KR_MAIN_H
#define KR_MAIN_H

#include "../machine/vmm.h"

/* boot.c: parses a block (pure). 0, or -EINVAL. */
int kr_boot_parse(struct kr_boot *b, const u8 *block, size_t size);

/* boot.c: writes a block as environment strings for the next monitor. Pure. n strings "KRUN_BOOT=<base64>"
 * hold at most KR_BOOT_PIECE bytes of the block each; one "KRUN_BOOT=@<n>" follows. text has
 * kr_boot_text_size(size) bytes. Returns the number of strings. */
#define KR_BOOT_PIECE 60000 /* below MAX_ARG_STRLEN when encoded */
size_t kr_boot_text_size(size_t size);
long kr_boot_encode(char *text, const u8 *block, size_t size);
/* boot.c: reads the block from the last strings of envp[envc], and removes these strings. Returns
 * kr_alloc(*room) with *size bytes; NULL: no block, or not well-formed. */
u8 *kr_boot_decode(char **envp, u32 envc, size_t *size, size_t *room);

/* layout.c: checks that every mapping of this process, and every place that the kernel will choose itself,
 * lies above KR_HOST_LOW. 0, or -errno with the misplaced part in *why; then no memory of the payload may be
 * mapped. Called before the first mapping. Seals the monitor's own file and data where the kernel has
 * mseal(2). */
int kr_layout_check(const u64 *auxv, const char **why);
/* layout.c: restores the payload's own soft RLIMIT_STACK (KR_BOOT_RLIMIT_STACK), unless another process has
 * changed the limit meanwhile. */
void kr_layout_restore_stack(void);

/* log.c: writes n bytes to the log; no signal comes of it. Returns the number of bytes, or -errno. */
long kr_log_write(const void *data, size_t n);
/* log.c: makes one line with its end in line; returns its length. */
#define KR_LOG_ROOM 512
size_t kr_log_line(char line[KR_LOG_ROOM], const char *prefix, const char *fmt, va_list ap);

/* die.c: writes "name=ns\0name=ns" of the stages so far to buf. Returns the number of bytes without the last
 * NUL. */
size_t kr_stage_fields(char *buf, size_t size);

#endif
