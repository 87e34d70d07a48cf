// statfs, fstatfs: kinds of file systems: statfs(2).
#include "guest.h"
#include <sys/vfs.h>
int main(int argc, char **argv) {
    struct statfs s, t;
    TRY(statfs("/proc", &s));
    say("proc %lx", (long)s.f_type);
    TRY(statfs(".", &s)), TRY(fstatfs(file_with("f", ""), &t));
    EXPECT(s.f_type == t.f_type && s.f_bsize == t.f_bsize && s.f_blocks == t.f_blocks && s.f_namelen == 255);
    TRY(statfs("missing", &s)), TRY(fstatfs(99, &s));
    int p[2];
    MUST(pipe(p));
    TRY(fstatfs(p[0], &s)), say("pipe %lx", (long)s.f_type);
    return wrong;
}
