/* SPDX-License-Identifier: Apache-2.0
 * Between the files that start the monitor. */
#ifndef KR_MAIN_H
#define KR_MAIN_H

#include "../machine/vmm.h"

/* boot.c: parses a block (pure). 0, or -EINVAL. */
int kr_boot_parse(struct kr_boot *b, const u8 *block, size_t size);

/* boot.c: a block as environment strings, for a successor (pure). n strings "KRUN_BOOT=<base64>" of at most
 * KR_BOOT_PIECE bytes of the block each, then one "KRUN_BOOT=@<n>". text has kr_boot_text_size(size) bytes;
 * returns the number of strings. */
#define KR_BOOT_PIECE 60000 /* below MAX_ARG_STRLEN when encoded */
size_t kr_boot_text_size(size_t size);
long kr_boot_encode(char *text, const u8 *block, size_t size);
/* The block from the last envc strings of envp, which are cut off; kr_alloc(*room). NULL: none there, or not
 * well-formed. */
u8 *kr_boot_decode(char **envp, u32 envc, size_t *size, size_t *room);

/* layout.c: whether every mapping of this process, and all that the kernel will place without being asked,
 * lies above KR_HOST_LOW. 0, or -errno with what was to be placed where in *why: then nothing of the payload may be mapped.
 * Called before anything is. Seals the monitor's own file and data (mseal(2)) where it can. */
int kr_layout_check(const u64 *auxv, const char **why);
/* layout.c: the payload's own soft RLIMIT_STACK (KR_BOOT_RLIMIT_STACK), unless somebody set another one
 * meanwhile. */
void kr_layout_restore_stack(void);

/* die.c: "name=ns\0name=ns" of the stages so far; bytes written without the last NUL. */
size_t kr_stage_fields(char *buf, size_t size);

#endif
