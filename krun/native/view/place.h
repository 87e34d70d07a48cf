/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entry of a procfs a descriptor is, and what the payload may have of it. Used by the files that open, walk and read links
 * (procfs.c, walk.c, proclink.c) only.
 *
 * A judgement is of a descriptor: for a file whose content is opened afterwards, that descriptor must stand where no other thread
 * can exchange it (kr_slot_put, fdtab.h). A judgement of a link needs no such care: what a link leads to is never followed from
 * where the payload found it (walk.h).
 */
#ifndef KR_PLACE_H
#define KR_PLACE_H

#include "procfs.h"
#include <linux/stat.h>

#define KR_PATH_ROOM 4096u /* PATH_MAX */

#define KR_IS_LINK(mode) (((mode)&0170000) == 0120000)
#define KR_IS_DIR(mode) (((mode)&0170000) == 0040000)
#define KR_IS_FIFO(mode) (((mode)&0170000) == 0010000)

/* Components of a path. */
static inline size_t kr_comp_len(const char *s) {
    size_t n = 0;
    while (s[n] && s[n] != '/')
        n++;
    return n;
}
/* What follows the component of n bytes at s, without its slashes. */
static inline const char *kr_comp_next(const char *s, size_t n) {
    s += n;
    while (*s == '/')
        s++;
    return s;
}

/* openat2(2) with O_CLOEXEC, not to be interrupted. Descriptor or -errno. */
long kr_open_plain(int dirfd, const char *path, u64 flags, u64 resolve);
/* close(2) of what is not negative. */
static inline void kr_close_fd(long fd) {
    if (fd >= 0)
        kr_sys1(__NR_close, fd);
}

/* Type, mode, inode, device, mount of fd. 0 or -errno. */
long kr_stat_fd(int fd, struct statx *sx);
/* Cheap, and never wrong when it says no. */
int kr_maybe_proc(const struct statx *sx);
/* Whether fd, which kr_stat_fd has looked at, lies on a procfs. */
int kr_on_proc(int fd, const struct statx *sx);

/* The name of fd (on a procfs) below the root of that procfs. path[KR_PATH_ROOM] becomes the text. 0, or -EACCES when the place
 * cannot be found out. */
int kr_place_name(struct kr_task *t, int fd, const struct statx *sx, char *path, struct kr_proc_name *out);
/* Whether the directory number of w stands for the calling process or one of its threads. */
int kr_place_own(const struct kr_proc_name *w);

enum kr_verdict {
    KR_V_PASS,
    KR_V_DENY,   /* -EACCES */
    KR_V_ABSENT, /* -ENOENT */
    KR_V_EXE,    /* a link of the calling process: the program of the payload */
    KR_V_OWN,    /* a magic link of the calling process */
    KR_V_VIEW,   /* our text instead */
    KR_V_LINK,   /* a magic link of another process, which knows where it leads */
    KR_V_TEXT,   /* a text of another process, of its own making */
};
/* Of fd, which lies on a procfs. */
enum kr_verdict kr_judge(struct kr_task *t, int fd, const struct statx *sx, struct kr_proc_name *w);
/* Of any fd that is to be opened: directories pass. Fills *sx; *what is filled but for KR_V_PASS and KR_V_DENY. */
enum kr_verdict kr_inspect(struct kr_task *t, int fd, struct statx *sx, struct kr_proc_name *what);

/* Parts of procname.c: "fd" -> KR_PE_FD and back; a decimal number as procfs takes it. Both stop at a slash. */
enum kr_proc_entry kr_proc_entry_of(const char *name);
const char *kr_proc_entry_name(enum kr_proc_entry entry);
int kr_proc_number(const char *name, u64 *v);

#endif
