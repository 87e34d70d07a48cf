/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials and per-process settings: capabilities, ids, limits, scheduler, memory policy, keyring. */
#include "host.h"

#include <linux/capability.h>
#include <linux/keyctl.h>
#include <string.h>

/* The layout that sched_setattr(2) gives; glibc has none before 2.41. */
struct kr_sched_attr {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime;
    uint64_t deadline;
    uint64_t period;
};

_Static_assert(sizeof(struct kr_sched_attr) == 48, "SCHED_ATTR_SIZE_VER0 of sched_setattr(2)");

int kr_capset(uint64_t effective, uint64_t permitted, uint64_t inheritable) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[2];

    for (int i = 0; i < 2; i++) {
        data[i].effective = (uint32_t)(effective >> (32 * i));
        data[i].permitted = (uint32_t)(permitted >> (32 * i));
        data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
    }
    return (int)KR_CALL(SYS_capset, &head, data);
}

/* sets[0..2]: effective, permitted, inheritable of the calling thread. */
int kr_capget(uint64_t *sets) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[2];
    long r;

    memset(data, 0, sizeof(data));
    r = KR_CALL(SYS_capget, &head, data);
    sets[0] = data[0].effective | (uint64_t)data[1].effective << 32;
    sets[1] = data[0].permitted | (uint64_t)data[1].permitted << 32;
    sets[2] = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
    return (int)r;
}

int kr_prctl(int op, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    return (int)KR_CALL(SYS_prctl, op, a, b, c, d);
}

int kr_setresuid(unsigned int real, unsigned int effective, unsigned int saved) {
    return (int)KR_CALL(SYS_setresuid, real, effective, saved);
}

int kr_setresgid(unsigned int real, unsigned int effective, unsigned int saved) {
    return (int)KR_CALL(SYS_setresgid, real, effective, saved);
}

int kr_setfsuid(unsigned int uid) { return (int)KR_CALL(SYS_setfsuid, uid); }

int kr_setgroups(size_t count, const unsigned int *groups) {
    return (int)KR_CALL(SYS_setgroups, count, groups);
}

/* Limits are pairs {soft, hard}; either pointer may be NULL. */
int kr_prlimit(int pid, int resource, const uint64_t *new_limit, uint64_t *old_limit) {
    return (int)KR_CALL(SYS_prlimit64, pid, resource, new_limit, old_limit);
}

int kr_sched_setattr(int pid, unsigned int policy, uint64_t flags, int nice, unsigned int priority,
                     uint64_t runtime, uint64_t deadline, uint64_t period) {
    struct kr_sched_attr attr = {
        .size = sizeof(attr),
        .policy = policy,
        .flags = flags,
        .nice = nice,
        .priority = priority,
        .runtime = runtime,
        .deadline = deadline,
        .period = period,
    };

    return (int)KR_CALL(SYS_sched_setattr, pid, &attr, 0);
}

int kr_sched_setaffinity(int pid, size_t size, const unsigned char *mask) {
    return (int)KR_CALL(SYS_sched_setaffinity, pid, size, mask);
}

int kr_ioprio_set(int which, int who, int value) { return (int)KR_CALL(SYS_ioprio_set, which, who, value); }

int kr_personality(unsigned long persona) { return (int)KR_CALL(SYS_personality, persona); }

int kr_set_mempolicy(int mode, const unsigned long *nodes, unsigned long bits) {
    return (int)KR_CALL(SYS_set_mempolicy, mode, nodes, bits);
}

/* A session keyring of this name, made when there is none (keyctl_join_session_keyring(3)). */
long kr_join_keyring(const char *name) {
    return KR_CALL(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name, 0, 0, 0);
}

int kr_keyring_setperm(int key, unsigned int perm) {
    return (int)KR_CALL(SYS_keyctl, KEYCTL_SETPERM, key, perm, 0, 0);
}
