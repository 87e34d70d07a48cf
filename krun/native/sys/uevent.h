/* SPDX-License-Identifier: Apache-2.0
 *
 * NETLINK_KOBJECT_UEVENT (netlink(7)) without KVM's events.
 *
 * KVM announces each VM that is made or ends by an event of /dev/kvm, with the host's pid of its process
 * (kvm_uevent_notify_change() in virt/kvm/kvm_main.c). Every network namespace of the first user namespace hears
 * it, and no capability is needed. So a payload would learn of each process of every container of the machine.
 * Therefore such a socket has a filter that drops these events, before the payload has its number; a filter
 * of the payload's own is put behind it.
 *
 * No state. No lock is held by the callers.
 */
#ifndef KR_UEVENT_H
#define KR_UEVENT_H

#include "table.h"

#define KR_AF_NETLINK 16
#define KR_NETLINK_KOBJECT_UEVENT 15

/* socket(2) for this protocol. The number or -errno; -ENFILE: a vfork child that shares its descriptors cannot make one. */
long kr_uevent_socket(struct kr_task *t, const u64 a[6]);

/* setsockopt(2) with SO_ATTACH_FILTER (a value of the right size) or SO_DETACH_FILTER, on a socket of any kind. The
 * call's result. */
long kr_uevent_filter(struct kr_task *t, const u64 a[6]);

#endif
