/* SPDX-License-Identifier: Apache-2.0
 *
 * THE table of the file systems that a payload may mount, and of the mount options by which the kernel reaches
 * a descriptor or a socket of the calling process. Pure functions. */
#ifndef KR_SYS_FSTYPE_H
#define KR_SYS_FSTYPE_H

#include "../lib/kr_lib.h"

/* Whether mount(2) and fsopen(2) serve the type. name: as the kernel gets it; the part behind a dot (a subtype,
 * "fuse.sshfs") does not count. */
int kr_fstype_served(const char *name);

/* Whether the option key=value may reach the kernel. value: NULL for an option without a value. */
int kr_fs_option_served(const char *key, const char *value);

/* The same for a whole text of options, separated by commas (mount(2)). The text may also be binary data:
 * then the answer is 0, unless the data is empty. */
int kr_fs_options_served(const char *text);

#endif
