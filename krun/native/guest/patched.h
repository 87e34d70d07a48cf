/* SPDX-License-Identifier: Apache-2.0
 *
 * Patched sites: offsets for guest/engine_patched.inc, and the same as a structure for the monitor.
 *
 * A patched site jumps to its trampoline (machine/site.h), and that to the code in guest/engine.S. Both lie in a part of the
 * address space that each vCPU has for itself, at the same address (machine/root.h): so code that all threads share
 * reaches the pages of the vCPU on which it runs.
 *
 *   KR_OWN_BASE    the code of the stub page, with another beginning: what exits there leaves by SYSCALL
 *        + 0x1000  the call page of this vCPU, as behind its stub page (callpage.h)
 *        + 0x5000  its fact page
 *   KR_OWN_SITES   the trampolines, KR_SITE_SIZE bytes each, the same for all vCPUs
 *   KR_OWN_END
 *
 * The last bytes of the call page are this file's.
 */
#ifndef KR_PATCHED_H
#define KR_PATCHED_H

#define KR_OWN_BASE 0x6c8000000000
#define KR_OWN_SITES 0x6c8000010000
#define KR_OWN_END 0x6c8000018000

#define KR_SITES 512
#define KR_SITE_SIZE 64
/* The page with the addresses of the trampolines is one of these, where the payload has nothing: the jump of a patched site
 * reaches 2 GiB. */
#define KR_SITE_TABLES 0x7fff0000
#define KR_SITE_TABLES_END 0x80000000

/* Offsets in the call page. */
#define KR_PP_RSP 0xf80   /* the payload's rsp, while the code uses the stack of this page */
#define KR_PP_RET 0xf88   /* a call that leaves: its return address */
#define KR_PP_FLAGS 0xf90 /* ... its flags */
#define KR_PP_CALLS 0xf98 /* calls that patched sites have completed, or tried to */
#define KR_PP_SAMPLE                                                                                         \
    0xfa0 /* calls that other sites complete until one exits, so that the monitor learns its address */
#define KR_PP_TOP 0x1000 /* the top of the stack: one word */

#ifndef __ASSEMBLER__
#include "callpage.h"

struct kr_patched {
    uint64_t rsp, ret, flags, calls;
    uint32_t sample;
};

_Static_assert(offsetof(struct kr_patched, ret) == KR_PP_RET - KR_PP_RSP, "engine_patched.inc");
_Static_assert(offsetof(struct kr_patched, flags) == KR_PP_FLAGS - KR_PP_RSP, "engine_patched.inc");
_Static_assert(offsetof(struct kr_patched, calls) == KR_PP_CALLS - KR_PP_RSP, "engine_patched.inc");
_Static_assert(offsetof(struct kr_patched, sample) == KR_PP_SAMPLE - KR_PP_RSP, "engine_patched.inc");
_Static_assert(sizeof(struct kr_call_page) <= KR_PP_RSP, "the rest of the call page");
_Static_assert(KR_SITES *KR_SITE_SIZE == KR_OWN_END - KR_OWN_SITES && KR_SITES * 8 <= 4096,
               "a page of addresses");
#endif
#endif
