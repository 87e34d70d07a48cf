/* SPDX-License-Identifier: Apache-2.0
 * Parser of the boot block. Pure. */
#include "main.h"
#include "../abi/boot.h"

struct kr_boot kr_boot = {.fd_kvm = -1,
                          .fd_exe = -1,
                          .fd_proc = -1,
                          .fd_sync = -1,
                          .fd_start = -1,
                          .fd_result = -1,
                          .fd_target = -1,
                          .fd_log = -1};

const void *kr_boot_next(const struct kr_boot *b, u16 tag, size_t *pos, u32 *len) {
    size_t p = *pos ? *pos : sizeof(struct kr_boot_header);
    while (b->block_size - p >= sizeof(struct kr_boot_record)) {
        struct kr_boot_record r;
        memcpy(&r, b->block + p, sizeof r);
        p += sizeof r;
        size_t padded = (r.len + 7ULL) & ~7ULL;
        if (r.tag == KR_BOOT_END || padded > b->block_size - p)
            break;
        const u8 *data = b->block + p;
        p += padded;
        if (r.tag == tag || tag == 0) {
            *pos = p;
            *len = r.len;
            return data;
        }
    }
    *pos = b->block_size;
    return NULL;
}

static int fd_record(const struct kr_boot *b, u16 tag) {
    size_t pos = 0;
    u32 len;
    const void *p = kr_boot_next(b, tag, &pos, &len);
    s32 fd = -1;
    if (p && len == 4)
        memcpy(&fd, p, 4);
    return fd;
}

static int u64_record(const struct kr_boot *b, u16 tag, u64 *v) {
    size_t pos = 0;
    u32 len;
    const void *p = kr_boot_next(b, tag, &pos, &len);
    if (!p || len != 8)
        return 0;
    memcpy(v, p, 8);
    return 1;
}

int kr_boot_parse(struct kr_boot *b, const u8 *block, size_t size) {
    struct kr_boot_header h;
    if (size < sizeof h)
        return -EINVAL;
    memcpy(&h, block, sizeof h);
    if (h.magic != KR_BOOT_MAGIC || h.version != KR_BOOT_VERSION || h.size > size || h.size < sizeof h)
        return -EINVAL;
    b->block = block;
    b->block_size = h.size;
    size_t pos = 0;
    u32 len;
    const u8 *path = kr_boot_next(b, KR_BOOT_EXE_PATH, &pos, &len);
    if (!path || len >= 4096)
        return -EINVAL;
    char *copy = kr_alloc(4096);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, path, len);
    copy[len] = 0;
    b->exe_path = copy;
    pos = 0;
    const u8 *json = kr_boot_next(b, KR_BOOT_STATE_JSON, &pos, &len);
    b->state_json = (const char *)json;
    b->state_json_len = json ? len : 0;
    b->fd_kvm = fd_record(b, KR_BOOT_FD_KVM);
    b->fd_exe = fd_record(b, KR_BOOT_FD_EXE);
    b->fd_proc = fd_record(b, KR_BOOT_FD_PROC);
    b->fd_sync = fd_record(b, KR_BOOT_FD_SYNC);
    b->fd_start = fd_record(b, KR_BOOT_FD_START);
    b->fd_result = fd_record(b, KR_BOOT_FD_RESULT);
    b->fd_target = fd_record(b, KR_BOOT_FD_TARGET);
    b->fd_log = fd_record(b, KR_BOOT_FD_LOG);
    u64_record(b, KR_BOOT_FLAGS, &b->flags);
    u64_record(b, KR_BOOT_T0, &b->t0);
    u64_record(b, KR_BOOT_VM_TYPE, &b->vm_type);
    b->has_rlimit_stack = u64_record(b, KR_BOOT_RLIMIT_STACK, &b->rlimit_stack);
    return b->fd_kvm < 0 ? -EINVAL : 0;
}
