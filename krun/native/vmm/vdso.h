/* SPDX-License-Identifier: Apache-2.0
 * The payload's vDSO: our own image (guest/vdso.*) and the time page in front of it. */
#ifndef KR_VDSO_H
#define KR_VDSO_H

#include "vmm.h"

/* Maps image and time page into a fresh address space; the address for AT_SYSINFO_EHDR, or 0 (then none is announced). */
u64 kr_vdso_map(struct kr_mm *mm);
/* Called at exits: renews the time page when it is older than its promise. Cheap when it is not. */
void kr_vdso_tick(struct kr_mm *mm);

#endif
