/* SPDX-License-Identifier: Apache-2.0
 *
 * The strings of an execve(2): see args.h. No state, no locks. Guest memory is read once.
 */
#include "args.h"
#include "../machine/usercopy.h"
#include <linux/limits.h>
#include <linux/resource.h>

#define STRING_MAX 131072u             /* MAX_ARG_STRLEN, the final NUL included */
#define TOTAL_MIN ((u32)ARG_MAX)       /* granted under every stack limit */
#define TOTAL_MAX ((8u << 20) / 4 * 3) /* _STK_LIM / 4 * 3 */

#define BOOT_ROOM (256u << 10) /* for the next monitor's boot block */

/* Bytes that the strings may take beside `pointers` bytes of pointers; 0: the pointers alone are too many. */
static u64 strings_max(u64 pointers) {
    u64 lim[2] = {~0ULL, ~0ULL};
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim);
    u64 total = KR_MAX(KR_MIN(lim[0] / 4, (u64)TOTAL_MAX), (u64)TOTAL_MIN), stack = KR_PAGE_DOWN(lim[0]);
    if (total <= pointers || stack < 8)
        return 0;
    return KR_MIN(total - pointers, stack - 8); /* the strings lie on the new stack, below a word of zeros */
}

static void *grow(void *p, size_t *room, size_t need) {
    size_t more = *room ? *room : 4096;
    while (more < need)
        more *= 2;
    if (more == *room)
        return p;
    void *q = kr_realloc(p, *room, more);
    if (q)
        *room = more;
    return q;
}

static int text_room(struct kr_args *a, size_t more) {
    char *p = grow(a->text, &a->room, a->used + more);
    if (p)
        a->text = p;
    return p ? 0 : -ENOMEM;
}

/* The pointers of a guest vector into *v, behind the first `at` entries; *n: how many there are. */
static long read_vector(char ***v, size_t *room, u64 vec, u32 at, u32 *n) {
    *n = 0;
    for (u64 p;; vec += 8, ++*n) {
        if (!vec)
            return 0;
        if (kr_copy_in(&p, vec, 8) < 0)
            return -EFAULT;
        if (!p)
            return 0;
        if (*n >= TOTAL_MAX / 8)
            return -E2BIG;
        char **q = grow(*v, room, ((size_t)at + *n + 1) * sizeof *q);
        if (!q)
            return -ENOMEM;
        *v = q;
        q[at + *n] = (char *)p;
    }
}

/* Appends a string. Its offset in text, or -errno. */
static long copy_guest(struct kr_args *a, u64 src) {
    for (size_t want = 256;; want *= 4) {
        if (text_room(a, KR_MIN(want, (size_t)STRING_MAX)) < 0)
            return -ENOMEM;
        size_t room = KR_MIN(a->room - a->used, (size_t)STRING_MAX), at = a->used;
        long n = kr_copy_str(a->text + at, src, room);
        if (n >= 0) {
            a->used += (size_t)n + 1;
            return (long)at;
        }
        if (n != -ENAMETOOLONG || room == STRING_MAX)
            return n == -ENAMETOOLONG ? -E2BIG : n;
    }
}

static long copy_own(struct kr_args *a, const char *s) {
    size_t n = strlen(s) + 1, at = a->used;
    if (text_room(a, n) < 0)
        return -ENOMEM;
    memcpy(a->text + at, s, n);
    a->used += n;
    return (long)at;
}

/* Copies the guest strings that v[from, to) points to, and replaces each pointer by the offset in text. 0 or
 * -errno. */
static long copy_all(struct kr_args *a, char **v, u32 from, u32 to, u64 limit) {
    for (u32 i = from; i < to; i++) {
        long at = copy_guest(a, (u64)v[i]);
        if (at >= 0 && a->used > limit)
            at = -E2BIG;
        if (at < 0)
            return at;
        v[i] = (char *)at;
    }
    return 0;
}

static long copy_vectors(struct kr_args *a, char *const *words, u32 nwords, const char *path) {
    u64 limit = strings_max(8ULL * (KR_MAX(a->argc, 1u) + a->envc));
    if (!limit)
        return -E2BIG;
    long r = copy_own(a, path);
    if (r >= 0)
        r = copy_all(a, a->envp, 0, a->envc, limit);
    if (r >= 0)
        r = copy_all(a, a->argv, nwords, a->argc, limit);
    for (u32 i = 0; i < nwords && r >= 0; i++)
        a->argv[i] = (char *)(r = copy_own(a, words[i]));
    a->full = a->used + BOOT_ROOM > limit;
    return r >= 0 && a->used > limit ? -E2BIG : r;
}

long kr_args_in(struct kr_args *a, u64 argv, u64 envp, char *const *words, u32 nwords, const char *path,
                u32 spare) {
    u32 at = nwords ? nwords - 1 : 0; /* the words replace the first argument */
    memset(a, 0, sizeof *a);
    a->argv = grow(NULL, &a->argv_room, (nwords + 2) * sizeof *a->argv);
    if (!a->argv)
        return -ENOMEM;
    long r = read_vector(&a->argv, &a->argv_room, argv, at, &a->argc);
    if (r == 0)
        r = read_vector(&a->envp, &a->envp_room, envp, 0, &a->envc);
    if (r < 0)
        return r;
    a->argc = KR_MAX(at + a->argc, nwords);
    int empty = !a->argc; /* Linux since 5.18 makes an empty argv one empty string */
    a->argc += (u32)empty;
    char **v = grow(a->argv, &a->argv_room, (a->argc + 1) * sizeof *v);
    char **e = grow(a->envp, &a->envp_room, (a->envc + spare + 1) * sizeof *e);
    a->argv = v ? v : a->argv;
    a->envp = e ? e : a->envp;
    if (!v || !e)
        return -ENOMEM;
    char *none = (char *)"";
    r = empty ? copy_vectors(a, &none, 1, path) : copy_vectors(a, words, nwords, path);
    if (r < 0)
        return r;
    for (u32 i = 0; i < a->argc; i++)
        a->argv[i] = a->text + (u64)a->argv[i];
    for (u32 i = 0; i < a->envc; i++)
        a->envp[i] = a->text + (u64)a->envp[i];
    a->argv[a->argc] = NULL;
    a->envp[a->envc] = NULL;
    return 0;
}

void kr_args_free(struct kr_args *a) {
    kr_free(a->text, a->room);
    kr_free(a->argv, a->argv_room);
    kr_free(a->envp, a->envp_room);
    memset(a, 0, sizeof *a);
}
