// The default action of every signal: kill, ignore or stop; the status names it: signal(7).
// krun: timeout=40
#include "guest.h"
int main(int argc, char **argv) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int sig = 1; sig <= 64; sig++) {
        if (sig == 32 || sig == 33)
            continue;
        pid_t c = CHILD({
            raise(sig);
            _exit(100);
        });
        int s;
        waitpid(c, &s, WUNTRACED);
        say_status(signal_name(sig), s);
        if (WIFSTOPPED(s))
            kill(c, SIGCONT), waitpid(c, &s, 0), say_status("  then", s);
    }
    return 0;
}
