/* SPDX-License-Identifier: Apache-2.0
 * machine/window.h: a thread whose system calls come first always asks; one whose page faults come first asks
 * ever more seldom, and soon again when that changes; each call has a row of its own. The costs are docs/performance.md's.
 * Sources: */
#include "harness.h"
#include "machine/window.h"

/* Runs `calls` system calls with `faults` exits that KVM would handle itself before every `each`-th of them.
 * Adds up wins and losses. */
static struct kr_window_rows rows;

static void run(struct kr_window *w, int calls, int each, int faults, int *won, int *lost) {
    for (int i = 0; i < calls; i++) {
        int asked = kr_window_ask(w, &rows);
        if (asked && i % each == 0 && faults) {
            kr_window_lost(w, &rows);
            ++*lost;
            asked = kr_window_ask(w, &rows);
        }
        if (asked) {
            kr_window_won(w, &rows);
            ++*won;
        } else {
            kr_window_call(w, &rows);
        }
    }
}

/* A thread that makes two calls by turns, and touches a new page after each of the second ones. */
static void own_rows(void) {
    struct kr_window w = {0};
    int lost = 0;
    kr_window_served(&w, __NR_openat);
    for (int i = 0; i < 1000; i++) {
        CHECK(kr_window_ask(&w, &rows)); /* what comes after the other call does not count */
        kr_window_won(&w, &rows);
        kr_window_served(&w, __NR_mmap);
        if (kr_window_ask(&w, &rows)) {
            kr_window_lost(&w, &rows);
            lost++;
        }
        CHECK(!kr_window_ask(&w, &rows));
        kr_window_call(&w, &rows);
        kr_window_served(&w, __NR_openat);
    }
    CHECK(lost <= 1000 / KR_WINDOW_PAUSE_MAX + 8);
}

/* A new program, its threads, and numbers that the payload chooses. */
static void beginning(void) {
    struct kr_window w = {0}, other = {0};
    memset(&rows, 0, sizeof rows);
    kr_window_begin(&rows);
    CHECK(!kr_window_ask(&w, &rows)); /* first it touches its pages */
    kr_window_served(&w, __NR_brk);
    CHECK(!kr_window_ask(&w, &rows));
    kr_window_served(&w, __NR_openat);
    CHECK(kr_window_ask(&w, &rows));
    kr_window_served(&w, __NR_munmap); /* a row without a bet at first: after some calls it has one */
    for (int i = 0; i < KR_WINDOW_PAUSE_FIRST; i++) {
        CHECK(!kr_window_ask(&w, &rows));
        kr_window_call(&w, &rows);
    }
    CHECK(kr_window_ask(&w, &rows));
    kr_window_won(&w, &rows);
    kr_window_served(&other, __NR_munmap); /* the threads learn together */
    CHECK(kr_window_ask(&other, &rows));
    kr_window_served(&w, ~0ULL);
    CHECK(w.last == KR_WINDOW_ROWS - 1);
    kr_window_lost(&w, &rows);
    CHECK(!kr_window_ask(&w, &rows) && kr_window_ask(&other, &rows));
    for (u64 nr = 0; nr < 2 * KR_WINDOW_ROWS; nr++)
        CHECK(kr_window_row(nr) >= 1 && kr_window_row(nr) < KR_WINDOW_ROWS);
    for (int i = 0; i < 100; i++) { /* losses without end: the row keeps its bounds */
        kr_window_lost(&w, &rows);
        CHECK(rows.row[w.last].wait <= KR_WINDOW_PAUSE_MAX && rows.row[w.last].pause <= KR_WINDOW_PAUSE_MAX);
    }
}

void test_main(void) {
    own_rows();
    beginning();
    memset(&rows, 0, sizeof rows);
    struct kr_window w = {0};
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

    memset(&rows, 0, sizeof rows);
    w = (struct kr_window){
        0}; /* calls that could be completed in the guest: after some of them it does not ask */
    for (int i = 0; i < 8; i++)
        kr_window_count(&w, 1);
    CHECK(!kr_window_ask(&w, &rows));
    for (int i = 0; i < 40; i++) /* and it asks again when the calls are others */
        kr_window_count(&w, 0);
    CHECK(kr_window_ask(&w, &rows));
    kr_window_completed(&w, ~0u); /* as many as the payload says */
    CHECK(!kr_window_ask(&w, &rows) && w.share <= KR_WINDOW_ALL);
    for (int i = 0; i < 1000; i++) /* every third call: it goes on asking; four of five: it does not */
        kr_window_count(&w, i % 3 == 0);
    CHECK(kr_window_ask(&w, &rows));
    for (int i = 0; i < 1000; i++)
        kr_window_count(&w, i % 5 != 0);
    CHECK(!kr_window_ask(&w, &rows));
}
