/* SPDX-License-Identifier: Apache-2.0
 *
 * The strings of an execve(2): all of them are copied into the monitor's memory before anything is decided from them, bounded as the
 * kernel bounds them (fs/exec.c: bprm_stack_limits(), copy_strings()). No thread of the payload can change one afterwards; what the
 * next monitor finds at the end of its environment is this monitor's own.
 */
#ifndef KR_ARGS_H
#define KR_ARGS_H

#include "../machine/vmm.h"

struct kr_args {
    char *text; /* all strings, one behind the other */
    size_t used, room;
    char **argv, **envp; /* NULL-terminated, into text; valid after kr_args_in */
    size_t argv_room, envp_room;
    u32 argc, envc;
    int full; /* so near to what the kernel takes that the boot block's strings need more room */
};

/* Copies the vectors at the guest's argv and envp (0: empty). words[nwords] stand in front of argv and replace its first; path is
 * what the kernel copies besides, for the count; spare: entries that envp has room for behind its last. 0; -EFAULT, -E2BIG, -ENOMEM. */
long kr_args_in(struct kr_args *a, u64 argv, u64 envp, char *const *words, u32 nwords, const char *path,
                u32 spare);
void kr_args_free(struct kr_args *a);

#endif
