/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a path of the payload component by component, with judgement of its magic links (proc(5): fd/N,
 * cwd, root, exe, ns/NAME).
 * The walk never follows a magic link from the place where the payload found it:
 *   - for a link of the calling process, it opens a name of its own making below the monitor's procfs handle;
 *   - for a link of another process, it asks that process (ask.h);
 *   - for all other links, the answer is EACCES.
 * So no change during the walk (of a mount, a number, a link of the image) leads to a descriptor of the
 * monitor, or to a process that is not a monitor of this container. The directories of the walk stand at
 * ordinary numbers, opened O_PATH.
 * Before the walk follows a link, it asks the kernel whether the kernel would: fs.protected_symlinks and the mount flag
 * nosymfollow (may_follow_link() and pick_link() in fs/namei.c). Another thread can exchange one for a directory of its own, which it could
 * have passed as dirfd.
 */
#ifndef KR_WALK_H
#define KR_WALK_H

#include "place.h"

struct kr_walk {
    int at;                /* where the walk stands: a directory; at the end the object */
    int owned;             /* whether kr_walk_end closes `at` */
    char *rest;            /* the path still to be walked; in buf */
    char *buf;             /* 2 * KR_PATH_ROOM bytes of the caller */
    int missing;           /* -ENOENT of the last component: `at` is its directory, `rest` its name */
    int real;              /* each directory must be searchable for the thread's real ids, too (access(2)) */
    int map;               /* -ENOENT of a name of map_files (mapfiles.h) */
    int dot;               /* the "." at the end of `rest` stands for a slash */
    u32 dir_mode, dir_uid; /* of the directory of the last component; 0 behind a magic link */
};

/* Opens path with O_PATH. follow: whether a link in the last place is followed. 0 with the object in w->at
 * (owned), or -errno. The caller ends with kr_walk_end in both cases. */
long kr_walk(struct kr_task *t, struct kr_walk *w, int dirfd, const char *path, int follow);
void kr_walk_end(struct kr_walk *w);
/* Writes down `dir` as the directory of the last component, for fs.protected_regular. */
void kr_walk_note(struct kr_walk *w, int dir);

/* Whether `name` is a number and the directory dirfd is fd or fdinfo of a process; then *pn is the entry. */
int kr_walk_fds(struct kr_task *t, int dirfd, const char *name, struct kr_proc_name *pn);
/* Whether path names fd/N or fdinfo/N of another process; then *pn is the entry. The path before the last
 * component is walked without magic links. */
int kr_walk_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn);

/* Where openat2(2) with flags that bind its walk has found a dangling link in the last place of path: puts the link's target into
 * path, as the kernel does. path: KR_PATH_ROOM bytes; target: as many, for its use. resolve: as in openat2(2). 0: path may be opened
 * again (it is unchanged if there is no link any more); else -errno. */
long kr_walk_dangling(int dirfd, char *path, char *target, u64 resolve);

/* The object of path for an O_CREAT that has found one, with flags that bind the walk: w->at, and the directory in which the last
 * component was found (dir_mode, dir_uid). resolve: as in openat2(2). 0 or -errno; -EAGAIN: look again. */
long kr_walk_bound(struct kr_task *t, struct kr_walk *w, int dirfd, const char *path, u64 resolve);

/* Whether path leads to a name of map_files, by links of the payload's. resolve: as in openat2(2), with flags by which the
 * kernel's walk ends there with ELOOP, if the name is there; or 0. */
int kr_walk_to_map(struct kr_task *t, int dirfd, const char *path, u64 resolve);

#endif
