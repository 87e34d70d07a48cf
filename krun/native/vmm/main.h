/* SPDX-License-Identifier: Apache-2.0
 * Between the files that start the monitor. */
#ifndef KR_MAIN_H
#define KR_MAIN_H

#include "vmm.h"

/* boot.c: parses a block (pure). 0, or -EINVAL. */
int kr_boot_parse(struct kr_boot *b, const u8 *block, size_t size);

/* die.c: "name=ns\0name=ns" of the stages so far; bytes written without the last NUL. */
size_t kr_stage_fields(char *buf, size_t size);

#endif
