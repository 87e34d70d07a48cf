// sigaltstack(2): handlers on it only with SA_ONSTACK, state while there, errors, SS_AUTODISARM.
// krun: static musl
#include "guest.h"
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif
static char alt[65536];
static int inside;
static stack_t state;
static void h(int s) {
    char here;
    inside = &here > alt && &here < alt + sizeof(alt);
    sigaltstack(NULL, &state);
    stack_t other = {.ss_sp = alt, .ss_size = 30000};
    int r = sigaltstack(&other, NULL);
    say("inside %d, flags %s, change: %s", inside,
        state.ss_flags & SS_ONSTACK   ? "on"
        : state.ss_flags & SS_DISABLE ? "disabled"
                                      : "0",
        r ? errno_name(errno) : "ok");
}
int main(int argc, char **argv) {
    stack_t s = {.ss_sp = alt, .ss_size = sizeof(alt)};
    sigaltstack(NULL, &state);
    say("at first disabled %d", !!(state.ss_flags & SS_DISABLE));
    TRY(sigaltstack(&s, NULL));
    on(SIGUSR1, h, SA_ONSTACK), raise(SIGUSR1);
    on(SIGUSR1, h, 0), raise(SIGUSR1);
    MUST(sigaltstack(&s, NULL));
    s.ss_flags = SS_AUTODISARM;
    TRY(sigaltstack(&s, NULL));
    on(SIGUSR1, h, SA_ONSTACK), raise(SIGUSR1);
    sigaltstack(NULL, &state);
    say("restored %d, size %zu", state.ss_sp == alt, state.ss_size);
    s.ss_flags = 8;
    TRY(sigaltstack(&s, NULL));
    s.ss_flags = 0, s.ss_size = 100;
    TRY(sigaltstack(&s, NULL));
    s.ss_flags = SS_DISABLE;
    TRY(sigaltstack(&s, NULL));
    raise(SIGUSR1);
    return 0;
}
