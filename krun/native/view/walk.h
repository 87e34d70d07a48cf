/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a path of the payload component by component, with judgement of its magic links (proc(5): fd/N, cwd, root, exe, ns/NAME).
 *
 * No magic link is ever followed from where the payload found it: what it says of the calling process is opened below the monitor's
 * own procfs handle, by a name made here; what it says of another process that process is asked for (ask.h); all others are EACCES.
 * So nothing that changes meanwhile (a mount, a number, a link of the image) leads to a descriptor of the monitor's or to a process
 * that is no monitor of this container. The directories on the way stand at ordinary numbers, O_PATH: another thread that exchanges
 * one puts a directory of its own there, which it could have given as dirfd.
 */
#ifndef KR_WALK_H
#define KR_WALK_H

#include "place.h"

struct kr_walk {
    int at;      /* what was reached: the object, or a directory */
    int owned;   /* `at` is ours to close */
    char *rest;  /* what remains of the path; in buf */
    char *buf;   /* 2 * KR_PATH_ROOM, the caller's */
    int missing; /* -ENOENT of the last component: `at` is its directory, `rest` its name */
};

/* Opens path O_PATH. follow: also a link in the last place. 0 with the object in w->at (owned), or -errno. kr_walk_end in any case. */
long kr_walk(struct kr_task *t, struct kr_walk *w, int dirfd, const char *path, int follow);
void kr_walk_end(struct kr_walk *w);

/* Whether `name` is a number and the directory dirfd is fd or fdinfo of some process: then *pn is the entry. */
int kr_walk_fds(struct kr_task *t, int dirfd, const char *name, struct kr_proc_name *pn);
/* The same of another process, for a path: its last component below what the rest of it leads to without magic links. */
int kr_walk_other_fd(struct kr_task *t, int dirfd, const char *path, struct kr_proc_name *pn);

#endif
