// System V messages: types, order, truncation, blocking, removal: msgop(2).
#include "guest.h"
#include <sys/msg.h>
int main(int argc, char **argv) {
    struct {
        long type;
        char text[20];
    } m = {3, "three"}, r = {0, ""};
    int id = MUST(msgget(IPC_PRIVATE, 0600));
    msgsnd(id, &m, 6, 0), m.type = 1, strcpy(m.text, "one"), msgsnd(id, &m, 4, 0), m.type = 2,
                          strcpy(m.text, "two"), msgsnd(id, &m, 4, 0);
    SHOW(msgrcv(id, &r, 20, 2, 0)), say("%s", r.text), SHOW(msgrcv(id, &r, 20, -3, 0)), say("%s", r.text);
    TRY(msgrcv(id, &r, 2, 0, 0)), SHOW(msgrcv(id, &r, 2, 0, MSG_NOERROR)),
        TRY(msgrcv(id, &r, 20, 0, IPC_NOWAIT));
    pid_t c = CHILD(SHOW(msgrcv(id, &r, 20, 9, 0)); say("%s", r.text));
    pause_ms(10), m.type = 9, msgsnd(id, &m, 4, 0), reap("receiver", c);
    m.type = 0, TRY(msgsnd(id, &m, 4, 0)), TRY(msgsnd(id, (void *)8, 4, 0)), TRY(msgctl(id, IPC_RMID, NULL)),
    m.type = 1, TRY(msgsnd(id, &m, 4, 0));
    return 0;
}
