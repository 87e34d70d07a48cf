/* SPDX-License-Identifier: Apache-2.0
 *
 * Patched sites: a SYSCALL of the payload's text that has become a jump into the code for completed calls, because SYSCALL
 * itself is a world switch on PVM. Only the guest's memory has the jump: /proc, core files and process_vm_readv(2) show the
 * original bytes.
 *
 *   form       original                    patched
 *   NUMBER     mov $nr,%eax; syscall       jmp *entry            7 bytes
 *   COMPARE    syscall; cmp $imm,%rax      jmp *entry; nop       8 bytes
 *
 * `entry` is the site's entry of a table, and leads to its trampoline (guest/patched.h). The trampoline loads what the jump has
 * replaced and the return address, and goes on to guest/engine_patched.inc. The table is a page of the guest's alone, at an
 * address below 2 GiB that the payload does not use (KR_SITE_TABLES). Once the payload maps something there, all sites are
 * undone, and none is patched any more.
 *
 * The second instruction of a site begins inside of the jump. A thread may stand there, or come there: behind a call that
 * blocked while the site was patched, by sigreturn, by a jump. The bytes there always fault and change nothing, and the
 * monitor executes the instruction in the guest's place (kr_site_middle):
 *
 *   NUMBER     ff 7f    no instruction (#UD): the upper half of the table's address
 *   COMPARE    e5 xx    in $xx,%eax (#GP), because no port but KR_PORT is open: the jump's address has a scale without an
 *                       index
 *
 * Rules:
 *   - Only private mappings of files that a loader made, without PROT_WRITE: no JIT, nothing that is shared.
 *   - Patched while no other thread runs in the guest: the others stand (process/quiesce.h), and no process shares the memory
 *     without being the same (CLONE_VM). So no thread has a part of the jump in its pipeline, or runs in a trampoline that gets
 *     another site.
 *   - Undone under mm->lock before the text changes: mprotect, mremap, madvise; forgotten after munmap and mmap over it.
 *     Other threads may run meanwhile: the page leaves the guest's tables, and the host's mprotect drops KVM's translations,
 *     while the bytes change. A thread that has jumped already completes its call.
 *   - A site that is undone keeps its place until another site needs it. So the monitor knows what a RIP in any trampoline
 *     means (kr_site_place).
 *   - The table and the trampolines belong to the monitor; ring 3 reads them.
 *   - After a fork the child has copies of everything. After an execve nothing is left.
 *
 * Locks: mm->lock for changes. Others read without a lock: a site is written before it becomes visible, and `live` alone
 * changes later.
 */
#ifndef KR_SITE_H
#define KR_SITE_H

#include "callpage.h"
#include "mm.h"
#include "../guest/patched.h"

enum kr_site_form { KR_SITE_NONE, KR_SITE_NUMBER, KR_SITE_COMPARE };

struct kr_site {
    u64 at; /* the first byte */
    u32 nr; /* NUMBER: of the call */
    u8 form, live;
    u8 was[8], now[8]; /* the bytes: original, patched */
};

#define KR_SITE_FIND 1024 /* a power of two, at least twice KR_SITES */
struct kr_sites {
    u64 table; /* address of the table; 0: the payload uses it */
    u32 n;
    struct kr_site site[KR_SITES];
    u16 find[KR_SITE_FIND]; /* 1 + number of a site, by its return address; open addressing */
};

/* Patches the site whose call returns to ret. nr: a number that its calls had. Nothing else runs in the guest. 0; -EINVAL:
 * no site, -ENOMEM, -ENOSPC. Lock: mm->lock. */
int kr_site_patch(struct kr_mm *mm, u64 ret, u32 nr);
/* Whether kr_site_patch may succeed: a look that changes nothing. Lock: mm->lock. */
int kr_site_possible(struct kr_mm *mm, u64 ret, u32 nr);
/* Gives the text of [start, end) its original bytes. 0 or -ENOMEM: some sites stay. Lock: mm->lock. */
int kr_sites_undo(struct kr_mm *mm, u64 start, u64 end);
/* Part of kr_mm_heir: a site that a dead process has half undone is undone. Lock: mm->lock. */
void kr_sites_heir(struct kr_mm *mm);
/* The payload maps [start, end): gives up the table, if it is there. 0 or -ENOMEM: it cannot be given up. Lock: mm->lock. */
int kr_sites_make_room(struct kr_mm *mm, u64 start, u64 end);
/* The text of [start, end) is gone. Lock: mm->lock. */
void kr_sites_forget(struct kr_mm *mm, u64 start, u64 end);

/* Gives the copy buf of [addr, addr + n) the original bytes. */
void kr_sites_original(const struct kr_mm *mm, u64 addr, void *buf, u64 n);

/* Whether the site whose call returns to ret is patched. */
int kr_site_is_patched(const struct kr_vm *vm, u64 ret);
/* Whether a site in [addr, addr + n) is patched. */
int kr_sites_any(const struct kr_mm *mm, u64 addr, u64 n);

/* Whether addr is the edge of pages of which one has, or had, a patched site: the host's mapping is divided there. */
int kr_site_edge(const struct kr_mm *mm, u64 addr);

/* What RIP in a trampoline means. BEFORE: r is the call's, its return address in rcx. AFTER: r is the payload's, behind the
 * call. RIP is not set in the first case. */
enum kr_place kr_site_place(const struct kr_vm *vm, struct kvm_regs *r);
/* The return address of a call for which rcx is `ret`: trampolines return to themselves. */
u64 kr_site_return(const struct kr_vm *vm, u64 ret);
/* A debug exception at r->rip: if it is the first instruction of a trampoline, r becomes what it is behind the first
 * instruction of the original text. */
void kr_site_stepped(const struct kr_vm *vm, struct kvm_regs *r);

/* Before the guest is entered: if RIP is at the second instruction of a site with COMPARE, it is executed here. */
void kr_site_enter(const struct kr_vm *vm, struct kvm_regs *r);
/* Whether the exception vec at r->rip is that of the second instruction of a site. COMPARE: it is executed here. NUMBER: r is
 * that of the call. RETRY: the original bytes are there again. */
enum kr_middle { KR_MIDDLE_NO, KR_MIDDLE_RETRY, KR_MIDDLE_DONE, KR_MIDDLE_CALL };
enum kr_middle kr_site_middle(const struct kr_vm *vm, u32 vec, struct kvm_regs *r);

#endif
