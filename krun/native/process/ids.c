/* SPDX-License-Identifier: Apache-2.0
 *
 * Effective ids over an execve(2). Before Linux 6.16 the kernel takes an execve with no_new_privs whose effective id
 * is not the real one for that of a set-user-id program: the effective, saved and file system ids become the real ones
 * (cap_bprm_creds_from_file() in security/commoncap.c). Every monitor has no_new_privs, most payloads have not; theirs
 * keep their effective ids natively. So a monitor tells the next one, which takes them again with the capabilities
 * that the kernel has left to it.
 *
 * State: none.
 */
#include "exec.h"
#include "nnp.h"
#include "process.h"
#include "../abi/boot.h"
#include <linux/capability.h>

static struct kr_exec_ids effective(void) {
    return (struct kr_exec_ids){(u32)kr_sys0(__NR_geteuid), (u32)kr_sys0(__NR_getegid)};
}

void kr_exec_save_ids(const struct kr_exec_save *x) {
    struct kr_exec_ids ids = effective();
    if (ids.euid != (u32)kr_sys0(__NR_getuid) || ids.egid != (u32)kr_sys0(__NR_getgid))
        x->emit(x->ctx, KR_BOOT_IDS, &ids, sizeof ids);
}

void kr_exec_load_ids(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct had[2], cap[2];
    struct kr_exec_ids want, now = effective();
    size_t pos = 0;
    u32 len;
    const void *data = kr_boot_next(&kr_boot, KR_BOOT_IDS, &pos, &len);
    /* With the payload's own no_new_privs the kernel's answer is the native one. */
    if (!data || len != sizeof want || kr_boot.flags & KR_BOOTF_NNP)
        return;
    memcpy(&want, data, sizeof want);
    if (!memcmp(&want, &now, sizeof want) || kr_sys2(__NR_capget, &head, had) < 0)
        return;
    memcpy(cap, had, sizeof cap);
    cap[0].effective |= cap[0].permitted & (1u << CAP_SETUID | 1u << CAP_SETGID);
    if (kr_sys2(__NR_capset, &head, cap) < 0)
        return;
    /* The group first: a change of the effective user from 0 clears the effective capabilities. */
    kr_sys3(__NR_setresgid, -1, want.egid, want.egid);
    kr_sys3(__NR_setresuid, -1, want.euid, want.euid);
    kr_sys2(__NR_capset, &head, had);
    kr_undumpable();
}
