/* SPDX-License-Identifier: Apache-2.0
 * The payload's vDSO. No image is announced yet: programs make the real calls. */
#include "vdso.h"

u64 kr_vdso_map(struct kr_mm *mm) {
    (void)mm;
    return 0;
}

void kr_vdso_tick(struct kr_mm *mm) { (void)mm; }
