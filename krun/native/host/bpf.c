/* SPDX-License-Identifier: Apache-2.0 */
/* bpf(2): the device program of a cgroup v2. */
#include "host.h"

#include <linux/bpf.h>
#include <string.h>

/* Loads a BPF_PROG_TYPE_CGROUP_DEVICE program of `count` instructions. The verifier's words go to `log` if it
 * has room. Returns its descriptor (close-on-exec, as all of bpf(2)) or -errno. */
int kr_bpf_load_device(const void *insns, unsigned int count, char *log, unsigned int log_size) {
    union bpf_attr attr;

    /* Unused members must be zero: the kernel refuses what it does not know. */
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insns = (uint64_t)(uintptr_t)insns;
    attr.insn_cnt = count;
    attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
    if (log_size != 0) {
        attr.log_buf = (uint64_t)(uintptr_t)log;
        attr.log_size = log_size;
        attr.log_level = 1;
    }
    return (int)KR_CALL(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
}

/* Attaches it beside those that systemd may have put there (all must allow). Returns 0 or -errno. */
int kr_bpf_attach_device(int cgroup, int prog) {
    union bpf_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.target_fd = (uint32_t)cgroup;
    attr.attach_bpf_fd = (uint32_t)prog;
    attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI;
    return (int)KR_CALL(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof attr);
}
