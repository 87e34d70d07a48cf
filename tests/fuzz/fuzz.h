// The parts of the hostile payload: random numbers, values that hurt, families of calls.
#ifndef FUZZ_H
#define FUZZ_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ARENA (1UL << 20)
#define STAGE (1UL << 16)
#define WINDOW_END 0x6a0000000000UL // KR_WINDOW_END of krun/native/machine/layout.h

// Exit statuses that no child uses by chance (random ones are below 64).  Whoever reaps one ends with it,
// too, so that it reaches the first process.
enum {
    SAW_NATIVE = 96,  // a program ran on the host's processor
    SAW_MEMORY = 97,  // a call read or wrote above the window
    SAW_MONITOR = 98, // a descriptor of the monitor's
    SAW_HOST = 99,    // a file of the host
    SAW_FATAL = 127,  // the monitor's own status
};

struct run {        // what run.py says by the environment
    char *canary;   // a directory of the host
    u64 file[2];    // device and inode of the file "public" in it
    u64 monitor[2]; // device and inode of the monitor's file
};
extern struct run run;

// One thread's.
extern __thread u64 state;
extern __thread sigjmp_buf back;
extern __thread volatile int may_jump;
// One process's.
extern unsigned char *arena; // where pointers point
extern unsigned char *stage; // shared with the processes that change it while the kernel reads it

u64 rnd(void);
static inline u64 below(u64 n) { return rnd() % n; }
u64 raw(u64 nr, const u64 a[6]);
#define RAW(nr, ...) raw(nr, (u64[6]){__VA_ARGS__})

// values.c
u64 border(void);
u64 descriptor(void);
u64 length(void);
u64 path(void);
u64 pointer(void);
u64 process(void); // an id: one's own, a neighbour's, 1, 0
u64 structure(void);
u64 message(void);
u64 value(void);
void *spot(u64 room);

// calls.c
void call(u64 nr, u64 a[6]);
void random_call(void);
void shaped_call(void);

// cpu.c
void cpu(void);
void handler(int sig, siginfo_t *si, void *context);

// The others: one function a family.
void memory(void);     // memory.c: one's own arena
void edges(void);      // memory.c: the window's ends
void shared_ids(void); // memory.c: System V memory under ids that are used again
void relatives(void);  // relatives.c: processes that share memory, descriptors, directory, actions
void execs(void);      // execs.c: programs whose strings change while they are executed
void programs(void);   // elf.c: hostile ELF files
void limits(void);     // execs.c: stack limit and personality, one's own and others'
void links(void);      // links.c: symbolic links into /proc
void cores(void);      // cores.c
void inspect(void);    // see.c: descriptors that should not be there
void peek(void);       // see.c: memory that should not be there
void escape(void);     // see.c: files of the host

// elf.c: writes a hostile program and returns its path.
const char *hostile_program(void);
// see.c: ends the process if this program runs natively.  Works without the libc.
void check_native(void);

// guest_fuzz.c
void rounds(u64 n);          // as many steps of the random walk
void reap(u64 milliseconds); // waits that long for children, kills what is left, ends with what they saw
_Noreturn void quit(int status);

#endif
