/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that end without a word, and what they leave to the processes that share their memory.
 *
 * A process made with CLONE_VM may end by SIGKILL, exit_group(2) or execve(2). Its tasks then are still on mm->tasks, with
 * their vCPUs, descriptor slots, stacks and counts. Another process of the mm buries them: it gives back all of this.
 *
 * A vCPU that is taken from a living task would be two tasks' at once. So a task is buried only when the kernel itself has
 * written down that the task has left the memory: neither numbers nor namespaces, credentials or mounts of the payload have a part
 * in it. The kernel writes to struct kr_life, a page of its own, where no call of the payload's can write. A fork leaves that page out
 * (MADV_DONTFORK), because it makes the pages that it copies read-only: the kernel drops a write to such a page if the writer is killed
 * while it waits for the fork (do_user_addr_fault(): mmap_read_lock_killable()), and a child that lives would look as if never made.
 *
 *   made    the number of the new task, before clone(2) returns (CLONE_PARENT_SETTID), and again by the task itself: a task that
 *           was never made has 0
 *   lives   0, when the task leaves the memory (CLONE_CHILD_CLEARTID: mm_release() in kernel/fork.c, in exit and execve). It is
 *           the last thing that the kernel writes there.
 *   word    FUTEX_OWNER_DIED at the same moment, for a task that has given the kernel another word in place of `lives`
 *           (set_tid_address(2), which the payload may call). The word is the only entry of a robust list, which no other
 *           code registers for such a task (sys/futex.c).
 *
 * The first process of an mm has no such record, because its threads must not become dearer; nor has a task that was killed
 * while it changed its record. These are asked for by number (kr_holder_gone), and only when something has run out.
 */
#ifndef KR_BURY_H
#define KR_BURY_H

#include "../machine/above.h"
#include "process.h"

struct kr_life {
    struct {
        u64 next; /* struct robust_list_head */
        s64 offset;
        u64 pending;
    } head;
    u64 entry; /* the list's only entry: leads back to the head */
    u32 word, lives, made;
    u32 errand[2]; /* numbers of the task's errand threads, which the kernel clears (private.c) */
};

/* Values of proc->related. The second is set after the process is counted: nobody takes away a count that is not there. */
#define KR_RELATED_MADE 1u
#define KR_RELATED_COUNTED 2u

/* Where the number of t's errand thread i stands. In the record, where no protection key keeps the kernel from clearing it
 * whatever the thread was doing; else such a task counts as living. */
static inline u32 *kr_life_errand(struct kr_task *t, u32 i) {
    return t->life ? &t->life->errand[i] : &t->errand[i];
}

/* Gives c a record if its process is one that CLONE_VM made. maker: the calling task; waits: it waits for c, the first task
 * of a process, and releases it (CLONE_VFORK). Before c is on mm->tasks. 0 or -ENOMEM. */
long kr_life_make(struct kr_task *c, struct kr_task *maker, int waits);
/* Puts the record's words into the arguments of c's clone; c->birth keeps the payload's. */
void kr_life_clone(struct kr_task *c, struct kr_clone_args *host);
/* On the new task, before it takes a lock: does what kr_life_clone took out of the arguments. */
void kr_life_begin(struct kr_task *t);
/* set_tid_address(2), of a task with or without a record. The task's number. */
long kr_life_set_tid_address(struct kr_task *t, u64 addr);
/* PR_GET_TID_ADDRESS: *addr is what the payload has set, never a word of the record. 0, or -EINVAL from a kernel without
 * CONFIG_CHECKPOINT_RESTORE. */
long kr_life_tid_address(struct kr_task *t, u64 *addr);
/* Before an execve, and after one that has failed (leaves 0). */
void kr_life_leave(struct kr_task *t, int leaves);
/* Before a thread ends while its process continues: the kernel forgets the record. */
void kr_life_end(struct kr_task *t);
/* Gives the record back. The kernel writes there no more. */
void kr_life_free(struct kr_task *t);
/* Forgets t as the maker and lender of other tasks. Lock: mm->lock. */
void kr_life_released(struct kr_task *t);
/* In a fork child, first: no record is in its memory. */
void kr_life_after_fork(struct kr_task *t);

#endif
