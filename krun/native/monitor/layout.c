/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the monitor itself lies. The one check of the payload's pointers (kr_span_ok) relies on this place.
 * The kernel places a program by its stack limit, its personality and vm.legacy_va_layout
 * (arch_pick_mmap_layout()). The payload can choose the first two, and a sibling of the process can choose
 * the moment. Therefore no monitor trusts what was set before the exec: every monitor checks where it lies,
 * and ends if the place is wrong.
 *
 * State: none.
 */
#include "../process/main.h"
#include "../machine/hostmem.h"
#include "../abi/boot.h"
#include "../lib/kr_guard.h"
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/resource.h>
#include <asm/auxvec.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* The parts of the process with known addresses: used where the kernel cannot answer the question. */
static int known_parts_are_high(const u64 *auxv) {
    u64 low = KR_MIN((u64)__ehdr_start, (u64)__builtin_frame_address(0));
    for (; auxv[0] != AT_NULL; auxv += 2)
        if (auxv[0] == AT_SYSINFO_EHDR)
            low = KR_MIN(low, auxv[1] - (16 * KR_PAGE)); /* [vvar] lies below the vDSO */
    return low >= KR_HOST_LOW;
}

/* Seals text, constants and data: one mapping per segment, RELRO among them. Writable data get the protection
 * key first, because the seal would refuse it. */
static void seal_file(void) {
    u64 base = (u64)__ehdr_start, relro = 0;
    const struct elf64_hdr *eh = (const void *)base;
    const struct elf64_phdr *ph = (const void *)(base + eh->e_phoff);
    for (u32 i = 0; i < eh->e_phnum; i++)
        if (ph[i].p_type == PT_GNU_RELRO)
            relro = KR_PAGE_DOWN(base + ph[i].p_vaddr + ph[i].p_memsz);
    for (u32 i = 0; i < eh->e_phnum; i++) {
        u64 start = KR_PAGE_DOWN(base + ph[i].p_vaddr),
            end = KR_PAGE_UP(base + ph[i].p_vaddr + ph[i].p_memsz);
        if (ph[i].p_type != PT_LOAD)
            continue;
        if (ph[i].p_flags & PF_W)
            kr_guard_memory(KR_MAX(start, relro), end - KR_MAX(start, relro));
        kr_host_seal(start, end - start);
    }
}

/* krun itself may have been started with other bits (setarch(8)). The payload has these bits, as with runc;
 * the host's process does not have them. */
static void take_personality(void) {
    long p = kr_sys1(__NR_personality, 0xffffffffu);
    if (p < 0 || !(p & KR_PERSONA_OWN))
        return;
    kr_boot.personality |= (u32)p & KR_PERSONA_OWN;
    kr_sys1(__NR_personality, (u32)p & ~KR_PERSONA_OWN);
}

int kr_layout_check(const u64 *auxv, const char **why) {
    int counted;
    long r = kr_host_take_window(&counted);
    *why = "the monitor above its program (see the stack limit, setarch(8), vm.legacy_va_layout)";
    if (r == -EEXIST || (!r && !counted && !known_parts_are_high(auxv)))
        return -EADDRNOTAVAIL;
    if (r < 0)
        return (int)r;
    if (kr_boot.flags & KR_BOOTF_FIRST)
        take_personality();
    seal_file();
    return 0;
}

void kr_layout_restore_stack(void) {
    u64 lim[2];
    if (!kr_boot.has_rlimit_stack || kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, 0, lim) < 0 ||
        lim[0] != KR_MIN(KR_EXEC_STACK, lim[1]))
        return;
    lim[0] = KR_MIN(kr_boot.rlimit_stack, lim[1]);
    kr_sys4(__NR_prlimit64, 0, RLIMIT_STACK, lim, 0);
}
