/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of entries of a procfs (proc(5)): the table of the entries that need care, and the parser. Pure: no
 * state, no system calls (tests/native).
 */
#include "place.h"

static const struct {
    const char *name;
    enum kr_proc_entry entry;
} entries[] = {
    {"exe", KR_PE_EXE},
    {"maps", KR_PE_MAPS},
    {"smaps", KR_PE_SMAPS},
    {"smaps_rollup", KR_PE_SMAPS_ROLLUP},
    {"numa_maps", KR_PE_NUMA_MAPS},
    {"status", KR_PE_STATUS},
    {"stat", KR_PE_STAT},
    {"statm", KR_PE_STATM},
    {"auxv", KR_PE_AUXV},
    {"environ", KR_PE_ENVIRON},
    {"syscall", KR_PE_SYSCALL},
    {"fd", KR_PE_FD},
    {"fdinfo", KR_PE_FDINFO},
    {"map_files", KR_PE_MAP_FILES},
    {"cwd", KR_PE_CWD},
    {"root", KR_PE_ROOT},
    {"mem", KR_PE_MEM},
    {"pagemap", KR_PE_PAGEMAP},
    {"clear_refs", KR_PE_CLEAR_REFS},
    {"stack", KR_PE_REFUSED},
};

static const char *const namespaces[] = {
    "cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"};

const char *kr_proc_ns_name(u64 n) { return n < KR_COUNT(namespaces) ? namespaces[n] : NULL; }

static int ns_of(const char *s, size_t n) {
    for (size_t i = 0; i < KR_COUNT(namespaces); i++)
        if (strlen(namespaces[i]) == n && memcmp(namespaces[i], s, n) == 0)
            return (int)i;
    return -1;
}

/* Whether [s, s+n) is a decimal number; its value in *v. */
static int number(const char *s, size_t n, u64 *v) {
    *v = 0;
    if (n == 0 || n > 10)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        *v = *v * 10 + (u64)(s[i] - '0');
    }
    return 1;
}

static enum kr_proc_entry entry_of(const char *s, size_t n) {
    for (size_t i = 0; i < KR_COUNT(entries); i++)
        if (strlen(entries[i].name) == n && memcmp(entries[i].name, s, n) == 0)
            return entries[i].entry;
    return KR_PE_OTHER;
}

void kr_proc_parse(const char *rel, struct kr_proc_name *out) {
    memset(out, 0, sizeof *out);
    size_t n = kr_comp_len(rel);
    if (!number(rel, n, &out->pid))
        return;
    rel = kr_comp_next(rel, n);
    n = kr_comp_len(rel);
    if (n == 4 && memcmp(rel, "task", 4) == 0) {
        rel = kr_comp_next(rel, n);
        n = kr_comp_len(rel);
        if (!*rel)
            out->entry = KR_PE_TASK;
        if (!number(rel, n, &out->tid))
            return;
        rel = kr_comp_next(rel, n);
        n = kr_comp_len(rel);
    }
    enum kr_proc_entry e = entry_of(rel, n);
    int in_ns = n == 2 && memcmp(rel, "ns", 2) == 0;
    const char *rest = kr_comp_next(rel, n);
    if (!*rest) {
        out->entry = e;
        return;
    }
    n = kr_comp_len(rest);
    int listed = e == KR_PE_FD || e == KR_PE_FDINFO || e == KR_PE_MAP_FILES;
    if (*kr_comp_next(rest, n)) { /* nothing lies so deep */
        out->entry = listed || in_ns ? KR_PE_REFUSED : KR_PE_OTHER;
        return;
    }
    if (in_ns && ns_of(rest, n) >= 0) {
        out->entry = KR_PE_NS_N;
        out->n = (u64)ns_of(rest, n);
    } else if (e == KR_PE_MAP_FILES)
        out->entry = KR_PE_MAP_FILES_N;
    else if (listed)
        out->entry = !number(rest, n, &out->n) ? KR_PE_REFUSED : e == KR_PE_FD ? KR_PE_FD_N : KR_PE_FDINFO_N;
}

int kr_proc_suspect(const char *name) {
    u64 v;
    size_t n = kr_comp_len(name);
    return entry_of(name, n) != KR_PE_OTHER || number(name, n, &v) || ns_of(name, n) >= 0 ||
           (n == 4 && memcmp(name, "task", 4) == 0);
}
const char *kr_proc_entry_name(enum kr_proc_entry entry) {
    for (size_t i = 0; i < KR_COUNT(entries); i++)
        if (entries[i].entry == entry)
            return entries[i].name;
    return "";
}

enum kr_proc_entry kr_proc_entry_of(const char *name) { return entry_of(name, kr_comp_len(name)); }

int kr_proc_number(const char *name, u64 *v) { return number(name, kr_comp_len(name), v); }
