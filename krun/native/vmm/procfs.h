/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files for the payload, and what /proc shows it.
 *
 * /proc in the container is the kernel's. Entries of the payload's own process that would show (or reach) the monitor are served
 * otherwise: exe, maps, smaps, fd, fdinfo, mem, map_files, task/*, stat, status... One table in procfs.c: entry -> how.
 * Recognised after resolution, by the opened inode (procfs magic) and its path below the monitor's own procfs handle: so by relative path, dirfd, symlink, thread-self,
 * own pid alike. Entries that give power over a process's memory (mem, map_files...) are refused for EVERY pid.
 * While other threads share the descriptor table no such descriptor may exist even for a moment: the file is first opened O_PATH, inspected, and re-opened
 * through the monitor's procfs.
 */
#ifndef KR_PROCFS_H
#define KR_PROCFS_H

#include "vmm.h"

struct open_how;

/* openat2(2) for the payload. path is a private copy. Descriptor or -errno. */
long kr_open(struct kr_task *t, int dirfd, const char *path, const struct open_how *how);

/* readlinkat(2): own exe, cwd, fd/N. buf is monitor memory. Length or -errno. */
long kr_readlink(struct kr_task *t, int dirfd, const char *path, char *buf, size_t size);

#endif
