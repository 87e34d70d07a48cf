/* SPDX-License-Identifier: Apache-2.0
 *
 * Names below /proc/PID/map_files (proc(5)) are the ranges of a process's mappings, and the process is a monitor. For the
 * payload no such name is there, its own mappings' included. It must not learn by an errno, or by the time of a call, whether a
 * range that it has guessed is mapped, because that is where the monitor lies. So the kernel never looks up such a name in
 * such a directory: it gets a name that is never there, and its answer is the payload's. A link of the payload's that leads to
 * such a name is followed by the kernel first; there only the errno is equal.
 */
#ifndef KR_MAPFILES_H
#define KR_MAPFILES_H

#include "place.h"

/* A range that is never mapped, because it does not begin at a page. */
#define KR_MAP_NONE "1-2"

/* Whether the component at name has the form of a range (hexadecimal numbers, a minus between them). Pure. */
int kr_map_name(const char *name);
/* Whether a component of path has. Pure. */
int kr_map_in(const char *path);
/* Whether dir, a directory, is map_files of a process, or cannot be judged. AT_FDCWD is judged, too. */
int kr_map_files(struct kr_task *t, int dir);
/* Whether an open or a walk has failed with r because no descriptor or memory is free: what is there is not known. Pure. */
int kr_map_unknown(long r);

/* kr_open for a path with such a component. open: openat2(2) for the payload of a path without. */
typedef long kr_map_open_fn(struct kr_task *t, int dirfd, const char *path, const struct open_how *how);
long kr_map_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *how,
                 kr_map_open_fn *open);

#endif
