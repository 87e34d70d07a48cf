/* SPDX-License-Identifier: Apache-2.0
 *
 * The strings of an execve(2). The monitor copies all of them into its own memory before it decides anything
 * from them, with the bounds of the kernel (bprm_stack_limits() and copy_strings() in fs/exec.c). Therefore
 * no thread of the payload can change a string after the check, and the boot block at the end of the next
 * monitor's environment comes from this monitor.
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
    int full; /* so near to the limit of the kernel that the boot block needs a higher limit */
};

/* Copies the vectors at the guest's addresses argv and envp (0: empty). words[nwords] replace the first
 * string of argv. path counts towards the limit, because the kernel copies it too. spare: number of entries
 * for which envp has room behind its last string. 0; -EFAULT, -E2BIG, -ENOMEM. */
long kr_args_in(struct kr_args *a, u64 argv, u64 envp, char *const *words, u32 nwords, const char *path,
                u32 spare);
void kr_args_free(struct kr_args *a);

#endif
