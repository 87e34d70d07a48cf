/* SPDX-License-Identifier: Apache-2.0
 * machine/window.h: a thread whose system calls come first always asks; one whose page faults come first asks
 * ever more seldom, and soon again when that changes. The costs are docs/performance.md's.
 * Sources: */
#include "harness.h"
#include "machine/window.h"

/* Runs `calls` system calls with `faults` exits that KVM would handle itself before every `each`-th of them.
 * Adds up wins and losses. */
static void run(struct kr_window *w, int calls, int each, int faults, int *won, int *lost) {
    for (int i = 0; i < calls; i++) {
        int asked = kr_window_ask(w);
        if (asked && i % each == 0 && faults) {
            kr_window_lost(w);
            ++*lost;
            asked = kr_window_ask(w);
        }
        if (asked) {
            kr_window_won(w);
            ++*won;
        } else {
            kr_window_call(w);
        }
    }
}

void test_main(void) {
    struct kr_window w = {0, 0, 0};
    int won = 0, lost = 0;
    run(&w, 1000, 1, 0, &won, &lost);
    CHECK(won == 1000 && lost == 0);

    won = lost = 0;
    run(&w, 10000, 1, 1, &won, &lost); /* a fault before every call: never a win */
    CHECK(won == 0);
    CHECK(lost <= 10000 / KR_WINDOW_PAUSE_MAX + 8);

    won = lost = 0; /* faults are over: at most one pause later all calls win again */
    run(&w, 1000, 1, 0, &won, &lost);
    CHECK(lost == 0 && won >= 1000 - KR_WINDOW_PAUSE_MAX);

    won = lost = 0; /* a fault before every fifth call: most are won, and it pays (20 us against 35) */
    run(&w, 10000, 5, 1, &won, &lost);
    CHECK(won * 20 > lost * 35);

    won = lost = 0; /* before every second: about even, never a loss worth the name */
    run(&w, 10000, 2, 1, &won, &lost);
    CHECK(lost * 35 - won * 20 < 10000); /* 1 us a call */
}
