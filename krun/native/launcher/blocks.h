#pragma once
/* Python's allocator while the launcher is made, and after (blocks.c). */
#include <Python.h>

#include <stddef.h>

/* Of address space, while the order is made. */
#define KR_CALLS (1u << 20)

extern int kr_made; /* 1 in the executable that callers run */

void kr_without_pools(void);
void kr_with_pools(void);
char *kr_arena_end(void);
void kr_order_begin(void);
void kr_order_use(const unsigned char *order, size_t count);
void kr_order_choose(PyObject *object, int part);
const unsigned char *kr_order_end(size_t *count);
