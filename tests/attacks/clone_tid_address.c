// PR_GET_TID_ADDRESS tells the word that the kernel clears when the task ends. In a process that CLONE_VM made, the
// monitor has the kernel clear a word of its own: the address tells where the monitor's memory lies.
#include "attack.h"

static volatile uint64_t seen[2];

int main(void) {
    for (int i = 0; i < 2; i++) {
        uint64_t address = 0;
        pid_t pid = vfork();
        if (pid == 0) {
            if (i == 1)
                syscall(SYS_set_tid_address, 0);
            if (prctl(PR_GET_TID_ADDRESS, &address) == 0)
                seen[i] = address;
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        if (seen[i] >= ATTACK_WINDOW_END)
            attack_won("an address of the monitor's: in its page at 0x%lx", (unsigned long)seen[i] & 0xfff);
    }
    attack_lost();
}
