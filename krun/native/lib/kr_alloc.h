/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's heap: size classes of powers of two, in anonymous mappings above the guest's window. Any thread
 * may call. Takes heap_lock, inside which no other lock is taken.
 */
#ifndef KR_ALLOC_H
#define KR_ALLOC_H

#include "kr_sys.h"

/* Returns `size` zeroed bytes; NULL: the host has no memory. */
void *kr_alloc(size_t size);
/* The same without the zeros: the bytes are what an earlier object left there. For buffers that are written before
 * they are read. */
void *kr_alloc_any(size_t size);
/* Moves an object of old_size bytes to one of new_size bytes; p may be NULL. Bytes behind old_size are not
 * always zero. NULL: no memory, and p stays. */
void *kr_realloc(void *p, size_t old_size, size_t new_size);
/* Gives back an object of `size` bytes; NULL is allowed. */
void kr_free(void *p, size_t size);

/* Around fork: hold heap_lock, so that no other thread is in the middle of a change. Parent and child call the
 * second one. */
void kr_alloc_before_fork(void);
void kr_alloc_after_fork(void);

#endif
