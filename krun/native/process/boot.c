/* SPDX-License-Identifier: Apache-2.0
 *
 * The boot block (abi/boot.h): the parser, and its form as environment strings. Pure.
 */
#include "main.h"
#include "../abi/boot.h"

struct kr_boot kr_boot = {.fd_kvm = -1,
                          .fd_exe = -1,
                          .fd_proc = -1,
                          .fd_sync = -1,
                          .fd_start = -1,
                          .fd_result = -1,
                          .fd_target = -1,
                          .fd_interp = -1,
                          .fd_log = -1,
                          .fd_board = -1,
                          .fd_relay = -1};

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
    b->fd_interp = fd_record(b, KR_BOOT_FD_INTERP);
    b->fd_log = fd_record(b, KR_BOOT_FD_LOG);
    b->fd_board = fd_record(b, KR_BOOT_FD_BOARD);
    b->fd_relay = fd_record(b, KR_BOOT_FD_RELAY);
    u64_record(b, KR_BOOT_FLAGS, &b->flags);
    u64_record(b, KR_BOOT_T0, &b->t0);
    u64_record(b, KR_BOOT_VM_TYPE, &b->vm_type);
    u64_record(b, KR_BOOT_FD_PLACE, &b->fd_place);
    u64_record(b, KR_BOOT_EXE_DEV, &b->exe_dev);
    u64_record(b, KR_BOOT_NOFILE_HARD, &b->nofile_hard);
    u64_record(b, KR_BOOT_EXE_INO, &b->exe_ino);
    u64_record(b, KR_BOOT_PERSONALITY, &b->personality);
    b->has_rlimit_stack = u64_record(b, KR_BOOT_RLIMIT_STACK, &b->rlimit_stack);
    return b->fd_kvm < 0 ? -EINVAL : 0;
}

#define PREFIX (sizeof KR_BOOT_ENV - 1)

size_t kr_boot_text_size(size_t size) {
    size_t pieces = size / KR_BOOT_PIECE + 1;
    return pieces * (PREFIX + 8) + size / 3 * 4 + PREFIX + 32;
}

static char digit(u32 v) {
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[v & 63];
}

long kr_boot_encode(char *text, const u8 *block, size_t size) {
    long n = 0;
    char *p = text;
    for (size_t at = 0; at < size; n++) {
        size_t end = at + KR_MIN(size - at, (size_t)KR_BOOT_PIECE);
        memcpy(p, KR_BOOT_ENV, PREFIX);
        p += PREFIX;
        for (; at < end; at += 3) {
            u32 left = (u32)(end - at);
            u32 v = (u32)block[at] << 16 | (left > 1 ? (u32)block[at + 1] << 8 : 0) |
                    (left > 2 ? block[at + 2] : 0);
            *p++ = digit(v >> 18);
            *p++ = digit(v >> 12);
            if (left > 1)
                *p++ = digit(v >> 6);
            if (left > 2)
                *p++ = digit(v);
        }
        at = end;
        *p++ = 0;
    }
    kr_snprintf(p, PREFIX + 16, KR_BOOT_ENV "@%lu", (unsigned long)n);
    return n + 1;
}

static int value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Appends the bytes of one base64 string at out[size]. Returns the new size; ~0: not base64, or no room. */
static size_t decode_piece(const char *s, u8 *out, size_t size, size_t room) {
    u32 v = 0, bits = 0;
    for (; *s; s++) {
        int d = value(*s);
        if (d < 0)
            return ~0UL;
        v = v << 6 | (u32)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (size == room)
                return ~0UL;
            out[size++] = (u8)(v >> bits);
        }
    }
    return size;
}

u8 *kr_boot_decode(char **envp, u32 envc, size_t *size, size_t *room) {
    const char *end;
    if (!envc || strncmp(envp[envc - 1], KR_BOOT_ENV "@", PREFIX + 1) != 0)
        return NULL;
    u64 n = kr_strtou(envp[envc - 1] + PREFIX + 1, &end);
    if (!n || n >= envc || *end)
        return NULL;
    char **piece = envp + envc - 1 - n;
    *room = n * (KR_BOOT_PIECE + 3);
    u8 *block = kr_alloc(*room);
    *size = block ? 0 : ~0UL;
    for (u64 i = 0; *size != ~0UL && i < n; i++)
        *size = strncmp(piece[i], KR_BOOT_ENV, PREFIX) == 0
                    ? decode_piece(piece[i] + PREFIX, block, *size, *room)
                    : ~0UL;
    if (*size == ~0UL) {
        kr_free(block, block ? *room : 0);
        return NULL;
    }
    *piece = NULL; /* the payload does not see the block's strings */
    return block;
}
