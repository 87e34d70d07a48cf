/* SPDX-License-Identifier: Apache-2.0
 * Between hostsig.c and signal.c. */
#ifndef KR_HOSTSIG_H
#define KR_HOSTSIG_H

#include "../machine/vmm.h"

/* Never blocked on the host: usercopy depends on them. */
#define KR_HOST_OPEN (KR_SIGBIT(11) | KR_SIGBIT(7))
#define KR_HOST_BLOCK_ALL (~KR_HOST_OPEN)

void kr_host_handler(int sig, siginfo_t *si, void *context);
void kr_host_restorer(void);

/* Sets the calling thread's host mask; SIGSEGV and SIGBUS are left open. Returns the old one. */
kr_sigset kr_host_mask(kr_sigset mask);

/* Load address of the monitor, for diagnosis. */
u64 kr_monitor_base(void);

#endif
