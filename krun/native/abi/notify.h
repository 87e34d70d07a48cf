/* SPDX-License-Identifier: Apache-2.0
 *
 * Seccomp notifications: the contract between the monitors of a container and krun's relay (oci/relay.py), which
 * answers the agent of linux.seccomp.listenerPath. docs/architecture.md, "Seccomp notifications".
 *
 * The kernel's copy of the profile has a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER), and the relay has its descriptor.
 * A thread tells the relay of a call by a system call of its own with the payload's six arguments, whose number is
 *
 *   KR_NOTIFY_BASE | kind << 24 | tag << 12 | the payload's number
 *
 * No kernel has a call of such a number. So the kernel executes nothing, whatever the answer is, and all that the relay
 * learns of the caller (its thread's id) is the kernel's word.
 */
#ifndef KR_ABI_NOTIFY_H
#define KR_ABI_NOTIFY_H

#define KR_NOTIFY_BASE 0x10000000u
#define KR_NOTIFY_LAST 0x13ffffffu
/* Kinds. A call of the payload. The tag tells a new call from one that is made again after an interruption of which the
 * payload knows nothing. */
#define KR_NOTIFY_CALL 0u
/* The answer to KR_NOTIFY_MOVE; the first argument is the new number or -errno. */
#define KR_NOTIFY_MOVED 1u
/* The call that the agent has let pass has been served. */
#define KR_NOTIFY_DONE 2u

/* Answers that are not the call's result; no agent's answer has these upper 16 bits (the relay sees to that). */
/* The agent lets the call pass (SECCOMP_USER_NOTIF_FLAG_CONTINUE): the monitor serves it. */
#define KR_NOTIFY_PASS 0x8e5e000000000000ULL
/* The agent has not answered yet: the call is told again. */
#define KR_NOTIFY_AGAIN 0x8e5e000000000001ULL
/* The agent's descriptor (SECCOMP_IOCTL_NOTIF_ADDFD) is at number `from`, and is to be moved to number `to`
 * (SECCOMP_ADDFD_FLAG_SETFD): KR_NOTIFY_MOVE | from | to << 22, with KR_NOTIFY_CLOEXEC. */
#define KR_NOTIFY_MOVE 0x8e5e400000000000ULL
#define KR_NOTIFY_MOVE_MASK 0xffffc00000000000ULL
#define KR_NOTIFY_CLOEXEC 0x0000200000000000ULL
#define KR_NOTIFY_FD_BITS 22u

#endif
