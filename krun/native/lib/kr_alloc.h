/* SPDX-License-Identifier: Apache-2.0
 * The monitor's heap: power-of-two size classes carved from anonymous mappings above the guest's window.
 * Zeroed memory. Takes heap_lock (innermost). NULL when the host has no memory. */
#ifndef KR_ALLOC_H
#define KR_ALLOC_H

#include "kr_sys.h"

void *kr_alloc(size_t size);
void *kr_realloc(void *p, size_t old_size, size_t new_size);
void kr_free(void *p, size_t size);

/* Around fork: no other thread may be in the middle of a change. The child of fork calls the second one too.
 */
void kr_alloc_before_fork(void);
void kr_alloc_after_fork(void);

#endif
