// /proc/self/maps shows code, heap, stack and own mappings, nothing of a monitor: proc(5).
// krun: static no-pie
#include "guest.h"
static int find(const char *maps, const void *at, char *perms, char *name) {
    char line[600];
    for (; maps && *maps; maps = strchr(maps, '\n'), maps += !!maps) {
        unsigned long from, to;
        sprintf(line, "%.*s", (int)strcspn(maps, "\n"), maps);
        *name = 0;
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %199s", &from, &to, perms, name) >= 3 &&
            (unsigned long)at >= from && (unsigned long)at < to)
            return 1;
    }
    return 0;
}
int main(int argc, char **argv) {
    char perms[5], name[200], *heap = sbrk(100000), *rw = pages(3), *none = pages(1), *fm;
    MUST(mprotect(rw + PAGE, PAGE, PROT_READ | PROT_EXEC)), MUST(mprotect(none, PAGE, PROT_NONE));
    fm = MUSTP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file_with("mapped-file", "x"), 0));
    struct {
        const char *what;
        void *at;
    } all[] = {{"code", main},    {"heap", heap}, {"stack", &all}, {"rw", rw},
               {"rx", rw + PAGE}, {"none", none}, {"file", fm}};
    char *maps = MUSTP(slurp("/proc/self/maps"));
    for (size_t i = 0; i < COUNT(all); i++) {
        int found = find(maps, all[i].at, perms, name);
        char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
        say("%s: %d %s %s", all[i].what, found, perms,
            i == 0 ? (!strcmp(name, argv[0]) ? "this program" : name) : last);
    }
    munmap(rw, PAGE),
        maps = slurp("/proc/self/maps"),
        say("after munmap %d %d", find(maps, rw, perms, name), find(maps, rw + 2 * PAGE, perms, name));
    unsigned long last = 0, odd = 0;
    int kvm = 0;
    for (char *l = maps; *l; l = strchr(l, '\n') + 1) { // ordered, not overlapping
        unsigned long from, to;
        sscanf(l, "%lx-%lx", &from, &to);
        odd += from < last || to <= from, last = to;
        kvm += memmem(l, strchr(l, '\n') - l, "kvm", 3) || memmem(l, strchr(l, '\n') - l, "krun-monitor", 12);
    }
    say("out of order %lu, foreign %d", odd, kvm);
    return 0;
}
