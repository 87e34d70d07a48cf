/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file systems a payload may mount, and with which options (fstype.h). The kernel decides whether the
 * payload's capabilities suffice. This file refuses what the kernel would do with the monitor's process:
 *
 *   types     binfmt_misc has an instance in each user namespace (Linux 6.7). An entry of an instance
 *             replaces the file that an execve in that namespace starts, and the monitor starts its own file
 *             for each execve of the payload: the payload's entry would run the payload's file natively. coda
 *             takes a descriptor in binary data. A type that the table does not have is not known to be
 *             harmless.
 *   options   of 9p: the numbers of descriptors on which the kernel then reads and writes (rfdno, wfdno; they
 *             may be the monitor's board or log), and a transport that connects to a path (trans=unix).
 *             fuse and autofs take a descriptor as well (fd), but of their own device or a pipe only
 *             (fuse_fill_super(), autofs_check_pipe()), and the monitor has none of these.
 *   binary    data of nfs and nfs4 holds pointers. No other served type takes binary data.
 *
 * Options that are paths (overlay's lowerdir, a journal device) are walked by the kernel: docs/security.md.
 *
 * No state, no locks.
 */
#include "fstype.h"
#include "../machine/fdtab.h"

static const char *const types[] = {
    /* of the kernel itself */
    "tmpfs",
    "ramfs",
    "proc",
    "sysfs",
    "devpts",
    "devtmpfs",
    "mqueue",
    "hugetlbfs",
    "cgroup",
    "cgroup2",
    "cpuset",
    "bpf",
    "debugfs",
    "tracefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "configfs",
    "efivarfs",
    "pstore",
    "resctrl",
    "binder",
    "fusectl",
    "nfsd",
    "rpc_pipefs",
    "functionfs",
    "gadgetfs",
    "ipathfs",
    "dax",
    "xenfs",
    /* on others */
    "overlay",
    "autofs",
    "ecryptfs",
    "fuse",
    "fuseblk",
    "virtiofs",
    "9p",
    /* of the network */
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "afs",
    "orangefs",
    "pvfs2",
    "gfs2",
    "gfs2meta",
    "ocfs2",
    /* on block devices and flash memory */
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "bcachefs",
    "zonefs",
    "nilfs2",
    "jfs",
    "reiserfs",
    "minix",
    "squashfs",
    "erofs",
    "cramfs",
    "romfs",
    "iso9660",
    "udf",
    "vfat",
    "msdos",
    "exfat",
    "ntfs",
    "ntfs3",
    "hfs",
    "hfsplus",
    "apfs",
    "affs",
    "befs",
    "bfs",
    "efs",
    "hpfs",
    "omfs",
    "qnx4",
    "qnx6",
    "sysv",
    "v7",
    "ufs",
    "vxfs",
    "adfs",
    "jffs2",
    "ubifs",
};

int kr_fstype_served(const char *name) {
    size_t n = 0;
    while (name[n] && name[n] != '.')
        n++;
    for (size_t i = 0; i < KR_COUNT(types); i++)
        if (strlen(types[i]) == n && memcmp(types[i], name, n) == 0)
            return 1;
    return 0;
}

/* ---- options ---- */

enum rule {
    NEVER,  /* refused with every value */
    NUMBER, /* the number of a descriptor: not one of the monitor's */
    VALUE,  /* refused with this value */
};

static const struct {
    const char *key, *value;
    enum rule rule;
} rules[] = {
    {"rfdno", NULL, NEVER}, /* 9p */
    {"wfdno", NULL, NEVER},   {"trans", "fd", VALUE},
    {"trans", "unix", VALUE}, {"fd", NULL, NUMBER}, /* fuse, autofs, coda */
};

/* Whether value, a number in the kernel's forms (kstrtouint() with base 0: decimal, octal, hexadecimal, a sign
 * in front), may name one of the monitor's descriptors. */
static int names_hidden(const char *value) {
    u64 n = 0;
    u32 base = 10;
    if (!value)
        return 0;
    value += *value == '+' || *value == '-';
    if (*value == '0') {
        value++;
        base = 8;
        if (*value == 'x' || *value == 'X') {
            value++;
            base = 16;
        }
    }
    for (; *value && n <= ~0u; value++) {
        u32 d = *value >= '0' && *value <= '9'   ? (u32)(*value - '0')
                : *value >= 'a' && *value <= 'f' ? (u32)(*value - 'a' + 10)
                : *value >= 'A' && *value <= 'F' ? (u32)(*value - 'A' + 10)
                                                 : 99;
        if (d >= base)
            break;
        n = n * base + d;
    }
    return n <= 0x7fffffff && kr_fd_hidden((u32)n);
}

static int is_option(const char *text, size_t n, const char *word) {
    return word && strlen(word) == n && memcmp(text, word, n) == 0;
}

/* One option: key of n bytes, value of v bytes (value NULL: none). */
static int served(const char *key, size_t n, const char *value, size_t v) {
    char number[32];
    for (size_t i = 0; i < KR_COUNT(rules); i++) {
        if (!is_option(key, n, rules[i].key))
            continue;
        if (rules[i].rule == NEVER ||
            (rules[i].rule == VALUE && value && is_option(value, v, rules[i].value)))
            return 0;
        if (rules[i].rule == NUMBER && value) {
            if (v >= sizeof number)
                return 0;
            memcpy(number, value, v);
            number[v] = 0;
            if (names_hidden(number))
                return 0;
        }
    }
    return 1;
}

/* A file system with the old interface gets the words of fsconfig(2) joined to one text (legacy_parse_param() in
 * fs/fs_context.c): a key may contain its value. */
int kr_fs_option_served(const char *key, const char *value) {
    const char *joined = strchr(key, '=');
    size_t n = joined ? (size_t)(joined - key) : strlen(key);
    if (joined && !served(key, n, joined + 1, strlen(joined + 1)))
        return 0;
    return served(key, n, value, value ? strlen(value) : 0);
}

/* A comma in quotes or behind a backslash belongs to a value. Here it ends the option, too: no option is
 * overlooked, and a value that looks like a refused option is refused. */
int kr_fs_options_served(const char *text) {
    if (*text && (u8)*text < ' ')
        return 0;
    while (*text) {
        size_t n = 0, key;
        while (text[n] && text[n] != ',')
            n++;
        for (key = 0; key < n && text[key] != '=';)
            key++;
        if (!served(text, key, key < n ? text + key + 1 : NULL, key < n ? n - key - 1 : 0))
            return 0;
        text += n + (text[n] == ',');
    }
    return 1;
}
