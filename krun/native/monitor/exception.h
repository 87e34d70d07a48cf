/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KR_EXCEPTION_H
#define KR_EXCEPTION_H

#include "../machine/vmm.h"

/* Serves exception vec, which the payload has caused: fills a page in, or forces a signal. The registers of t are those of the
 * payload at that moment. error: the error code that the processor has pushed; 0: none. */
void kr_exception(struct kr_task *t, u32 vec, u64 error);

#endif
