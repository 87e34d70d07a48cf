/* SPDX-License-Identifier: Apache-2.0
 *
 * Where `krun debug` finds the threads of a process (krun/kvm/inspect.py): a table among the constants of each monitor, with
 * the places of what it reads. krun reads the memory of the monitor from the host (/proc/PID/mem), so no thread takes part, and
 * a process that was started by another version of krun has its own table. No code of the monitor uses it.
 *
 * A thread that runs in the guest has its registers in the processor. krun sends it the signal by which threads of a process stop
 * each other (KR_QUIESCE_KICK): it only ends KVM_RUN, which saves the registers, and the thread enters the guest again.
 */
#ifndef KR_INSPECT_H
#define KR_INSPECT_H

#include "../machine/mm.h"

struct kr_inspect_table {
    char magic[16];
    const struct kr_mm *mm; /* of the process, and of its forked children at the same address */
    u32 mm_tasks;           /* in struct kr_mm: the first task */
    u32 next, tid, run, nr, args, runs, exits; /* in struct kr_task */
    u32 regs, fs_base;                         /* in struct kvm_run: struct kvm_regs, the base of FS */
};

#define KR_INSPECT_TABLE(mm)                                                                                 \
    {                                                                                                        \
        "krun-inspect-01", mm, offsetof(struct kr_mm, tasks), offsetof(struct kr_task, next),                \
            offsetof(struct kr_task, tid), offsetof(struct kr_task, run), offsetof(struct kr_task, nr),      \
            offsetof(struct kr_task, args), offsetof(struct kr_task, runs), offsetof(struct kr_task, exits), \
            offsetof(struct kvm_run, s.regs.regs), offsetof(struct kvm_run, s.regs.sregs.fs.base)            \
    }

#endif
