// prctl(2) option by option: name, no_new_privs, death signal, dumpable, keep capabilities, time slack.
#include "guest.h"
#include <sys/prctl.h>
int main(int argc, char **argv) {
    char name[17] = "";
    int v = -1;
    TRY(prctl(PR_SET_NAME, "a-rather-long-name-for-a-task")), prctl(PR_GET_NAME, name), say("%s", name);
    SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)), TRY(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)),
        TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)), SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    TRY(prctl(PR_SET_PDEATHSIG, SIGUSR1)), prctl(PR_GET_PDEATHSIG, &v), say("%d", v),
        TRY(prctl(PR_SET_PDEATHSIG, 99));
    SHOW(prctl(PR_GET_DUMPABLE)), TRY(prctl(PR_SET_DUMPABLE, 0)), SHOW(prctl(PR_GET_DUMPABLE)),
        TRY(prctl(PR_SET_DUMPABLE, 2)), TRY(prctl(PR_SET_DUMPABLE, 1));
    SHOW(prctl(PR_GET_KEEPCAPS)), TRY(prctl(PR_SET_KEEPCAPS, 1)), SHOW(prctl(PR_GET_KEEPCAPS)),
        SHOW(prctl(PR_GET_SECUREBITS));
    TRY(prctl(PR_GET_TSC, &v)), say("tsc %d", v);
    TRY(prctl(PR_SET_TIMERSLACK, 60000)), SHOW(prctl(PR_GET_TIMERSLACK));
    SHOW(prctl(PR_GET_SECCOMP)), SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    TRY(prctl(12345, 0, 0, 0, 0)), TRY(prctl(PR_SET_NAME, (char *)8)), TRY(prctl(PR_GET_PDEATHSIG, (int *)8));
    return 0;
}
