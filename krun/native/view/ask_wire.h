/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets and messages that the asker (ask.c) and the owner (answer.c) share. The protocol is in ask.h.
 */
#ifndef KR_ASK_WIRE_H
#define KR_ASK_WIRE_H

#include "ask.h"
#include "proctext.h"
#include "../lib/kr_linux.h"
#include "../process/board.h"

enum kr_ask_op { KR_ASK_LINK = 1, KR_ASK_TEXT, KR_ASK_FDS };

#define SOCKET_KIND (SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
#define SHUT_RD 0
#define MSG_QUIET (MSG_DONTWAIT | MSG_NOSIGNAL)

#define FDS_MAX (1u << 20)
#define TEXT_MAX (64u << 20)

struct name { /* an abstract address by autobind (unix(7)): NUL and five hexadecimal digits */
    u16 family;
    char text[6];
};
#define NAME_SIZE 8

struct cred {
    u32 pid, uid, gid;
};

struct answer {
    u64 tag;    /* kr_answer_tag */
    s32 status; /* 0 or -errno */
    u32 mode;
};

struct control {
    u64 len;
    s32 level, type;
    s32 fd;
    u32 pad;
};

/* A socket of a question. Its number is hidden if other threads shared the descriptor table when it was made. */
struct kr_sock {
    int fd, hidden;
};
/* Makes a socket. The number or -errno. */
long kr_sock_new(struct kr_task *t, struct kr_sock *s);
/* accept4(2) on `from`; the new socket as above. */
long kr_sock_accept(struct kr_task *t, int from, struct kr_sock *s);
/* Closes a socket in whose queue only monitors can have put something. */
void kr_sock_drop(struct kr_sock *s);
/* Credentials of the peer (SO_PEERCRED). Whether *c is filled. */
int kr_sock_peer(int fd, struct cred *c);
/* The proof in an answer. request, n: of the question; the process numbers are the kernel's (SO_PEERCRED). */
static inline u64 kr_answer_tag(u32 request, u32 n, u32 asker, u32 owner) {
    return kr_board_tag(KR_TAG_ANSWER, (u64)request << 32 | n, (u64)asker << 32 | owner);
}
/* The seals that a text or a list in an answer must have. */
#define KR_TEXT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* In the child of a fork: the owner's half of kr_ask_after_fork. */
void kr_answer_after_fork(void);
/* The same of kr_ask_heir. */
void kr_answer_heir(const struct kr_lock *l);

#endif
