/* SPDX-License-Identifier: Apache-2.0
 *
 * The own /proc/PID/pagemap and clear_refs (proc_pid_pagemap(5), proc_pid_clear_refs(5)).
 *
 * The payload's memory is the monitor's, at the same addresses (machine/hostmem.h), so the kernel's entry of a page is the
 * payload's. Entries outside of the payload's mappings are 0, as they are natively where nothing is mapped. The number of the
 * page frame is always 0, also for CAP_SYS_ADMIN: an address of the host's memory is of use only to an attack on that memory.
 *
 * What clear_refs clears, it also clears for the monitor's pages, where it changes nothing that the monitor looks at. KVM maps
 * the pages anew after it (mmu_notifier_invalidate_range_start() in clear_refs_write()), so a write of ring 3 sets the bit again.
 *
 * The kernel's file is opened for each call, and only in a slot: its descriptor would show the monitor's pages. No state.
 * Locks: mm->lock while the mappings are looked up. Callers: memfile.c.
 */
#include "pagemap.h"
#include "memfile.h"
#include "../machine/fdtab.h"
#include "../machine/mm.h"
#include "../machine/usercopy.h"
#include "../view/place.h"
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define ENTRIES 512u /* that are read at a time */
#define FRAME ((1ULL << 55) - 1)
#define COMMAND 12u /* PROC_NUMBUF - 1 */

/* The kernel's file, in a slot. The descriptor or -errno. */
static long open_own(struct kr_task *t, enum kr_proc_entry entry, u64 access) {
    const struct open_how how = {.flags = access | O_CLOEXEC};
    char rel[32];
    kr_snprintf(rel, sizeof rel, "self/%s", kr_proc_entry_name(entry));
    const u64 a[4] = {(u64)(s64)kr_boot.fd_proc, (u64)rel, (u64)&how, sizeof how};
    return kr_boot.fd_proc < 0 ? -EACCES : kr_slot_make(t, -1, __NR_openat2, a);
}

long kr_pagemap_may(struct kr_task *t, enum kr_proc_entry entry, u64 flags) {
    long fd = open_own(t, entry, flags & O_ACCMODE);
    kr_slot_free((int)fd);
    return fd < 0 ? fd : 0;
}

/* Leaves of the n entries from address addr on what is the payload's. */
static void reduce(struct kr_mm *mm, u64 *entry, u64 n, u64 addr) {
    const struct kr_vma *v = NULL;
    kr_lock(&mm->lock);
    for (u64 i = 0; i < n; i++, addr += KR_PAGE) {
        if (!v || v->end <= addr)
            v = kr_span_ok(addr, KR_PAGE) ? kr_vma_find(mm, addr) : NULL;
        entry[i] = v && v->start <= addr ? entry[i] & ~FRAME : 0;
    }
    kr_unlock(&mm->lock);
}

static long read_map(struct kr_task *t, int fd, u64 at, u64 buf, u64 size) {
    u64 *entry = kr_alloc(ENTRIES * sizeof *entry), done = 0;
    long r = entry ? 0 : -ENOMEM;
    if (size % sizeof *entry) /* of the whole, not of its last part */
        r = -EINVAL;
    while (entry && r >= 0 && (done < size || !done)) {
        r = kr_sys4(__NR_pread64, fd, entry, KR_MIN(size - done, ENTRIES * sizeof *entry), at + done);
        if (r <= 0)
            break;
        reduce(t->mm, entry, (u64)r / sizeof *entry, (at + done) / sizeof *entry * KR_PAGE);
        if (kr_copy_out(buf + done, entry, (size_t)r) < 0)
            r = -EFAULT;
        else
            done += (u64)r;
    }
    kr_free(entry, ENTRIES * sizeof *entry);
    return r < 0 ? r : (long)done; /* as pagemap_read(): an error also behind the first entries */
}

static long write_command(int fd, u64 buf, u64 size) {
    char command[COMMAND];
    size = KR_MIN(size, (u64)COMMAND);
    if (kr_copy_in(command, buf, size) < 0)
        return -EFAULT;
    return kr_sys3(__NR_write, fd, command, size);
}

long kr_pagemap_move(struct kr_task *t, enum kr_proc_entry entry, u64 at, u64 buf, u64 size, int writes) {
    if (writes != (entry == KR_PE_CLEAR_REFS))
        return -EINVAL; /* the file has no such operation */
    if (!kr_span_ok(buf, size))
        return -EFAULT; /* access_ok() in vfs_read() */
    size = KR_MIN(size, KR_MAX_RW);
    long fd = open_own(t, entry, writes ? O_WRONLY : O_RDONLY);
    if (fd < 0)
        return fd;
    long r = writes ? write_command((int)fd, buf, size) : read_map(t, (int)fd, at, buf, size);
    kr_slot_free((int)fd);
    return r;
}
