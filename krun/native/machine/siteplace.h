/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a site and of its trampoline. Pure.
 */
#ifndef KR_SITEPLACE_H
#define KR_SITEPLACE_H

#include "site.h"

/* COMPARE: the offset in the trampoline at which a completed call comes back: movabs $ret,%rcx; cmp $imm,%rax; jmp *to. */
#define KR_SITE_TAIL 16u
#define KR_SITE_TAIL_JUMP (KR_SITE_TAIL + 16u)
#define KR_SITE_TAIL_END (KR_SITE_TAIL_JUMP + 6u)

static inline u32 kr_site_length(const struct kr_site *s) { return s->form == KR_SITE_NUMBER ? 7 : 8; }
/* The offset of its second instruction. */
static inline u32 kr_site_second(const struct kr_site *s) { return s->form == KR_SITE_NUMBER ? 5 : 2; }
/* The address behind the SYSCALL. */
static inline u64 kr_site_after_call(const struct kr_site *s) {
    return s->at + (s->form == KR_SITE_NUMBER ? 7 : 2);
}

static inline u32 kr_site_hash(u64 ret) {
    return (u32)(ret * 0x9e3779b97f4a7c15ULL >> 54) & (KR_SITE_FIND - 1);
}
/* The site whose call returns to ret, live or not; NULL. */
struct kr_site *kr_site_find(struct kr_sites *sites, u64 ret);

#endif
