// kill(2), core(5): a fatal signal with a core that comes to a child while it is being made ends it.
#include "guest.h"
int main(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_CORE, &limit));
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    MUST(setrlimit(RLIMIT_CORE, &limit));
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL};
    for (size_t i = 0; i < COUNT(signals); i++) {
        int died = 0, times = (int)scaled(12);
        for (int n = 0; n < times; n++) {
            pid_t p = CHILD(for (;;) pause());
            MUST(kill(p, signals[i]));
            int status = 0;
            MUST(waitpid(p, &status, 0));
            died += WIFSIGNALED(status) && WTERMSIG(status) == signals[i];
        }
        say("%s: all died of it: %d", signal_name(signals[i]), died == times);
    }
    return wrong;
}
