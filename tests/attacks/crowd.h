// Threads that are all there at the same time: each of them is a vCPU more, whose descriptor is made at the lowest free number.
#ifndef ATTACK_CROWD_H
#define ATTACK_CROWD_H
#include "attack.h"
#include <pthread.h>

#define CROWD 300

static volatile int crowd_made; // how many there are
static volatile int crowd_over; // all have been there; the attack sets it to end sooner
static pthread_mutex_t crowd_gate = PTHREAD_MUTEX_INITIALIZER;

static inline void *crowd_member(void *argument) {
    pthread_mutex_lock(&crowd_gate); // held by the maker until the end
    pthread_mutex_unlock(&crowd_gate);
    return argument;
}

// The body of a thread that makes them, one by one.
static inline void *crowd_maker(void *argument) {
    static pthread_t threads[CROWD];
    int n = 0;
    pthread_mutex_lock(&crowd_gate);
    while (n < CROWD && !crowd_over && pthread_create(&threads[n], NULL, crowd_member, NULL) == 0)
        crowd_made = ++n;
    crowd_over = 1;
    pthread_mutex_unlock(&crowd_gate);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return argument;
}

#endif
