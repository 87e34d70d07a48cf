// sysinfo, getrandom, getloadavg, sched_yield, personality: sysinfo(2), getrandom(2).
#include "guest.h"
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
int main(int argc, char **argv) {
    struct sysinfo i;
    char a[300] = "", b[300] = "";
    MUST(sysinfo(&i)), EXPECT(i.uptime > 0 && i.totalram > i.freeram && i.procs > 0 && i.mem_unit >= 1);
    SHOW(getrandom(a, 300, 0)), getrandom(b, 300, GRND_NONBLOCK), EXPECT(memcmp(a, b, 300));
    TRY(getrandom(a, 1, 0x77)), SHOW(getrandom(a, 10, GRND_RANDOM)), SHOW(getentropy(a, 256)),
        TRY(getentropy(a, 257)), SHOW(sched_yield());
    SHOW(personality(0xffffffff)), SHOW(personality(ADDR_NO_RANDOMIZE)), SHOW(personality(0xffffffff));
    EXPECT(get_nprocs() >= 1 && getpagesize() == 4096);
    return wrong;
}
