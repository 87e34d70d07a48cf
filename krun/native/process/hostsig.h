/* SPDX-License-Identifier: Apache-2.0
 *
 * What hostsig.c and signal.c share.
 */
#ifndef KR_HOSTSIG_H
#define KR_HOSTSIG_H

#include "../machine/vmm.h"

/* Never blocked on the host, because usercopy depends on these signals. */
#define KR_HOST_OPEN (KR_SIGBIT(11) | KR_SIGBIT(7))
#define KR_HOST_BLOCK_ALL (~KR_HOST_OPEN)

void kr_host_handler(int sig, siginfo_t *si, void *context);
void kr_host_restorer(void);

/* Sets the calling thread's host mask, except that SIGSEGV and SIGBUS stay unblocked. Returns the old mask. */
kr_sigset kr_host_mask(kr_sigset mask);

/* The same where signals may be caught meanwhile: leaves all signals blocked if one is caught, because its delivery
 * sets the mask. t: the calling thread's. */
void kr_host_mask_back(struct kr_task *t, kr_sigset mask);

#endif
