/*
 * Where Python's objects lie (krun.c).  The linker sends every call of malloc and relatives in libpython here
 * (--wrap).  While the launcher is made, the blocks come from kr_arena; in the executable that callers run they
 * come from libc and from Python's own allocator of small objects, and what lies in kr_arena is never reused.
 *
 * A command writes to each object that it touches (the number of references), and the first write to a page copies
 * the page.  So the memory is made once more: the first time says which objects the hot verbs touch (start.py,
 * `touched`), and the calls that allocate them are the same again, because the interpreter starts the same way.
 * From then on their blocks lie together (ORDER: one byte for each call).  A wrong order costs time only.
 */
#define PY_SSIZE_T_CLEAN
#include "blocks.h"

#include "arena.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* kr_arena has a part for each number in the order, and what is not in it comes behind them. */
enum { STEP = 16, CLASSES = 64, PARTS = 3, PART = 1u << 20 };

/* Before each block; the block is aligned to 16 bytes, as malloc's. */
struct head {
    uint32_t size, part;
};

int kr_made;

static const unsigned char *order;
static size_t order_count;
static unsigned char *choice;
static uint32_t *owners; /* by STEP bytes of kr_arena: number of the call whose block begins here, and 1 */
static size_t calls;
static size_t used[PARTS] = {(PARTS - 1) * PART + STEP, STEP, PART + STEP};
static void *freed[PARTS][CLASSES]; /* by size; a free block begins with the address of the next one */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);

static int in_arena(const void *p) {
    return (const char *)p >= kr_arena && (const char *)p < kr_arena + KR_ARENA;
}

static struct head *head_of(const void *block) {
    return (struct head *)((char *)block - sizeof(struct head));
}

static size_t whole(size_t size) { return (size + sizeof(struct head) + STEP - 1) / STEP * STEP; }

char *kr_arena_end(void) { return kr_arena + used[0]; }

/* Zeroes, or NULL if there are none left. */
static void *take(size_t size) {
    size_t call = calls++;
    unsigned part = call < order_count ? order[call] : 0;
    if (size > KR_ARENA)
        return NULL;
    size_t bytes = whole(size ? size : 1), class = bytes / STEP;
    if (part >= PARTS || (part && bytes > part * PART - used[part]))
        part = 0;
    void *block = class < CLASSES ? freed[part][class] : NULL;
    if (block) {
        memcpy(&freed[part][class], block, sizeof(block));
        memset(block, 0, sizeof(void *));
    } else {
        if (bytes > KR_ARENA - used[part])
            return NULL;
        block = kr_arena + used[part];
        used[part] += bytes;
    }
    *head_of(block) = (struct head){(uint32_t)size, part};
    if (owners && call < KR_CALLS)
        owners[((char *)block - kr_arena) / STEP] = (uint32_t)call + 1;
    return block;
}

static void give(void *block) {
    const struct head *head = head_of(block);
    size_t class = whole(head->size ? head->size : 1) / STEP;
    memset(block, 0, head->size);
    if (class >= CLASSES)
        return;
    memcpy(block, &freed[head->part][class], sizeof(void *));
    freed[head->part][class] = block;
}

void *__wrap_malloc(size_t size) { return kr_made ? __real_malloc(size) : take(size); }

void *__wrap_calloc(size_t count, size_t size) {
    if (kr_made)
        return __real_calloc(count, size);
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : take(bytes);
}

void __wrap_free(void *old) {
    if (!in_arena(old))
        __real_free(old);
    else if (!kr_made)
        give(old);
}

void *__wrap_realloc(void *old, size_t size) {
    if (old && !in_arena(old))
        return __real_realloc(old, size);
    void *fresh = __wrap_malloc(size);
    if (fresh && old) {
        size_t had = head_of(old)->size;
        memcpy(fresh, old, had < size ? had : size);
        __wrap_free(old);
    }
    return fresh;
}

/* Of small objects, 1 MiB at a time (obmalloc.c), and of the interpreter's frames. */
static void *arena_alloc(void *unused, size_t size) {
    (void)unused;
    if (!kr_made)
        return take(size);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void arena_free(void *unused, void *at, size_t size) {
    (void)unused;
    if (!in_arena(at))
        munmap(at, size);
}

static void *plain_malloc(void *unused, size_t size) {
    (void)unused;
    return __wrap_malloc(size);
}

static void *plain_calloc(void *unused, size_t count, size_t size) {
    (void)unused;
    return __wrap_calloc(count, size);
}

static void *plain_realloc(void *unused, void *old, size_t size) {
    (void)unused;
    return __wrap_realloc(old, size);
}

static void plain_free(void *unused, void *old) {
    (void)unused;
    __wrap_free(old);
}

static PyMemAllocatorEx pools[2];
static const PyMemAllocatorDomain domains[2] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};

/* Python's allocator of small objects has a pool for each size, so it would spread the memory. It begins in the
 * executable that callers run, with pools of its own. */
void kr_without_pools(void) {
    PyObjectArenaAllocator arenas = {NULL, arena_alloc, arena_free};
    PyObject_SetArenaAllocator(&arenas);
    PyMemAllocatorEx plain = {NULL, plain_malloc, plain_calloc, plain_realloc, plain_free};
    for (int i = 0; i < 2; i++) {
        PyMem_GetAllocator(domains[i], &pools[i]);
        PyMem_SetAllocator(domains[i], &plain);
    }
}

/* Before the memory is written: nothing of the process that makes it stays. */
void kr_with_pools(void) {
    for (int i = 0; i < 2; i++)
        PyMem_SetAllocator(domains[i], &pools[i]);
    order = choice = NULL;
    order_count = 0;
    owners = NULL;
}

/* ------------------------------------------------------------------------------------------------- the order
 */

static void *anonymous(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* From here on it is known which call a block is of. */
void kr_order_begin(void) {
    owners = anonymous(KR_ARENA / STEP * sizeof(*owners));
    choice = anonymous(KR_CALLS);
}

void kr_order_use(const unsigned char *bytes, size_t count) {
    order = bytes;
    order_count = count;
}

static void choose(const void *at, int part) {
    /* Before an object lie, in its block, what the collector keeps and the pointers to its attributes. */
    for (size_t before = 0; in_arena(at) && before <= 2 * STEP; before += STEP) {
        uint32_t call = owners[((const char *)at - before - kr_arena) / STEP];
        if (call) {
            if (!choice[call - 1])
                choice[call - 1] = (unsigned char)part;
            return;
        }
    }
}

/* The object's block is to lie in this part, if it is in none. */
void kr_order_choose(PyObject *object, int part) {
    if (!owners || !choice)
        return;
    if (PyType_Check(object) && PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE))
        choose(((PyHeapTypeObject *)object)->ht_cached_keys, part); /* a new object changes them */
    choose(object, part);
}

const unsigned char *kr_order_end(size_t *count) {
    *count = calls < KR_CALLS ? calls : KR_CALLS;
    return choice;
}
