/* SPDX-License-Identifier: Apache-2.0
 *
 * The two pages of a vCPU that the guest's code uses to complete calls: offsets for guest/engine.S, and the same as
 * structures for the monitor. The offsets of the pages are from the stub page, whose address is the only one that
 * the code knows (RIP).
 *
 *   fact page   ring 3 reads it, only the monitor writes it
 *   call page   ring 3 reads and writes it, so that every thread of the payload may: the monitor copies each value
 *               once, and takes it for what the payload says of itself
 */
#ifndef KR_CALLPAGE_H
#define KR_CALLPAGE_H

#define KR_EO_CALL 0x1000
#define KR_EO_FACT 0x5000
#define KR_EO_OUT 0    /* the exit */
#define KR_EO_ENTRY 16 /* LSTAR, if calls are completed */

#define KR_LOCAL_CALLS 512 /* numbers below it have a byte in `way` */
#define KR_LOCAL_FACTS 16
#define KR_LOCAL_WAYS 8

/* A byte of `way`: the way (enum kr_way) in the low half, an index in the high half. */
#define KR_WAY_MASK 15
#define KR_WAY_SHIFT 4

#define KR_FP_ON 0
#define KR_FP_WAY 8
#define KR_FP_FACT 520
#define KR_FP_ACTION 648

#define KR_CP_SAVE 0
#define KR_CP_STACK 128
#define KR_CP_RESULT 384
#define KR_CP_SET 392
#define KR_CP_TO 400
#define KR_CP_DONE 2480
#define KR_CP_DECLINED 2544
#define KR_CP_POST_AT 2608
#define KR_CP_POST 2616

/* Indexes of `save`. */
#define KR_SAVE_RAX 0
#define KR_SAVE_R11 1
#define KR_SAVE_RCX 2
#define KR_SAVE_RDX 3
#define KR_SAVE_RSI 4
#define KR_SAVE_RDI 5
#define KR_SAVE_R8 6
#define KR_SAVE_R9 7
#define KR_SAVE_R10 8

/* Flags with which a call is not completed: TF DF NT AC. SYSCALL clears them (SFMASK), and only the monitor brings
 * them back. */
#define KR_LOCAL_FLAGS 0x44500

/* The end of the payload's memory: an address from there on would be the monitor's own. */
#define KR_LOCAL_MEMORY_END 0x6a0000000000
/* The flags with which a send is completed: MSG_DONTWAIT, MSG_NOSIGNAL. */
#define KR_LOCAL_SEND_FLAGS 0x4040

/* rt_sigaction(2), engine_action.inc. The last address for an action of the payload's. */
#define KR_LOCAL_LAST_ACTION 0x69ffffffffe0
/* Bit sig - 1: not SIGKILL, SIGSTOP; not SIGCHLD, SIGCONT, SIGURG, SIGWINCH, which a default action ignores. */
#define KR_LOCAL_ACTION_SIGNALS 0xfffffffff7b8feff
/* The flags that Linux keeps (UAPI_SA_FLAGS in the kernel's linux/signal.h), and those that the host's kernel gets:
 * SA_NOCLDSTOP, SA_NOCLDWAIT, SA_RESTART. */
#define KR_LOCAL_ACTION_FLAGS 0xdc000807
#define KR_LOCAL_ACTION_HOST 0x10000003

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

/* struct sigaction as the kernel takes it (x86-64). */
struct kr_action_k {
    uint64_t handler, flags, restorer, mask;
};

struct kr_fact_page {
    uint32_t on; /* 0: every call is an exit */
    uint32_t epoch;
    uint8_t way[KR_LOCAL_CALLS];
    uint64_t fact[KR_LOCAL_FACTS];
    struct kr_action_k action[65]; /* by signal; of a process of one thread */
};

struct kr_call_page {
    uint64_t save[16];  /* registers of the call */
    uint64_t stack[32]; /* room for the code */
    uint64_t result;
    uint64_t set; /* bit sig - 1: `to` has an action that the payload has set */
    struct kr_action_k to[65];
    uint64_t done[KR_LOCAL_WAYS], declined[KR_LOCAL_WAYS]; /* calls by way; they only grow */
    uint64_t post_at, post; /* what a complete call still has to store, and where (engine_file.inc) */
};

_Static_assert(offsetof(struct kr_fact_page, on) == KR_FP_ON, "engine.S");
_Static_assert(offsetof(struct kr_fact_page, way) == KR_FP_WAY, "engine.S");
_Static_assert(offsetof(struct kr_fact_page, fact) == KR_FP_FACT, "engine.S");
_Static_assert(offsetof(struct kr_fact_page, action) == KR_FP_ACTION, "engine.S");
_Static_assert(offsetof(struct kr_call_page, save) == KR_CP_SAVE, "engine.S");
_Static_assert(offsetof(struct kr_call_page, stack) == KR_CP_STACK, "engine.S");
_Static_assert(offsetof(struct kr_call_page, result) == KR_CP_RESULT, "engine.S");
_Static_assert(offsetof(struct kr_call_page, set) == KR_CP_SET, "engine.S");
_Static_assert(offsetof(struct kr_call_page, to) == KR_CP_TO, "engine.S");
_Static_assert(offsetof(struct kr_call_page, done) == KR_CP_DONE, "engine.S");
_Static_assert(offsetof(struct kr_call_page, declined) == KR_CP_DECLINED, "engine.S");
_Static_assert(offsetof(struct kr_call_page, post_at) == KR_CP_POST_AT, "engine_file.inc");
_Static_assert(offsetof(struct kr_call_page, post) == KR_CP_POST, "engine_file.inc");
_Static_assert(sizeof(struct kr_fact_page) <= 4096 && sizeof(struct kr_call_page) <= 4096, "a page each");
#endif
#endif
