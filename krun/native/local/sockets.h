/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on TCP sockets that the guest's code completes: reads of bytes that the monitor has seen before (prefetch.c), and sends
 * that the monitor carries out later (queue.c). docs/calls.md has the rules as the payload sees them.
 *
 * Only with KR_BOOTF_SOCKETS. One thread of a process, the holder, completes such calls: the only thread, when it makes the first TCP socket, accepts the
 * first connection or makes a second thread. Only sockets that the holder has made itself, and that nobody else has, are in the table of owned sockets.
 * A socket leaves the table before a call that could give it to somebody else, change how it reads or sends, or that
 * another thread of the process makes (kr_sockets_named).
 *
 *   the holder enters the guest     kr_sockets_enter  records are allowed if a timer bounds their delay
 *   any thread of the process       kr_sockets_left   takes what the guest's code has done: bytes that were read leave the
 *   leaves the guest                                  kernel's queue, records are sent
 *   a call names a descriptor       kr_sockets_named  what was seen of its socket is forgotten
 *   accept has given a connection   kr_accepted       its next bytes are looked at, what servers ask about it is known, close is a record
 *   an open has given a file        kr_file_opened    its size is known until the next exit, sendfile and close are records
 *   a wait has found sockets ready  kr_sockets_ready  their next bytes are looked at, room in the send buffer becomes credit
 *
 * State: kr_mm.sockets, made once; lock: kr_sockets.lock. The area (guest/socketpage.h) belongs to it. Another thread that
 * needs the holder out of the guest's code waits for kr_sockets.turns to change, without the lock.
 */
#ifndef KR_LOCAL_SOCKETS_H
#define KR_LOCAL_SOCKETS_H

#include "local.h"
#include "../guest/socketpage.h"

#define KR_SOCKETS_LIVE 64 /* sockets with bytes or credit at a time */

struct kr_socket {
    u8 owned;    /* in the table: 0 no, 1 yes, 2 on its way out (another thread has named it) */
    u8 live;     /* in kr_sockets.live */
    u8 nonblock; /* O_NONBLOCK: 0 no, 1 yes, 2 unknown */
    s32 error; /* errno of a send that was carried out later, for the next call; 0: none. Also while not owned */
    u32 gen; /* counts the sockets that had this number */
    u32 len; /* the entry's, while other values there may be cleared */
    u32 off;
    u32 taken;  /* bytes of `used` that have left the kernel's queue */
    u32 credit; /* the entry's credit, less what records have taken */
    u64 data;   /* what epoll gives for it */
    u32 guess;  /* kr_sockets.guesses when another thread last named the number, while it was not owned */
};

/* A file that was opened (opened.c). `opened`, `offered` and `known` are 1 + a descriptor; 0: none. */
struct kr_opened {
    u32 opened;  /* it has just been opened */
    u32 offered; /* the guest's code may take calls on it */
    u32 known;   /* the same, if it completed calls */
    u32 kept;    /* nothing but calls on it (kr_file_call) has been made since it was offered */
    u32 reopens; /* the guest's code may open it again */
    u32 files;   /* counts those that were offered */
    u32 closed;  /* the records so far have closed it */
    s32 again;   /* the descriptor of the last record of an open, at a number of its own; -1: none */
    u32 refused; /* that open was */
    u32 stands;  /* the number has the object only */
    u32 nr, dirfd, flags, path_size; /* how it was opened; path_size 0: the path is too long */
    char path[KR_SOCK_PATH];
    struct kr_file_times {
        u64 now, flags; /* seconds of the clock, flags of the mount */
        u64 dev, ino, t[6];
        u32 sent; /* and the file was read since */
    } times;      /* of the file that was offered last */
};

/* The connection that was accepted last (accepted.c). `fd` and `listener` are 1 + a descriptor; 0: none. */
struct kr_accepted {
    u32 fd, listener;
    u32 called;  /* `fd`, as it was before the call that is under way */
    u32 count;   /* of those that were offered */
    u32 offered; /* its facts stand in the area */
    u32 closes;  /* a record of its close counts */
};

struct kr_sockets {
    struct kr_lock lock;
    struct kr_task *holder; /* NULL: nobody */
    struct kr_proc *proc;   /* the holder's process */
    struct kr_sock_area *area;
    u32 inside;  /* the holder is in the guest, or on its way */
    u32 turns;   /* counts its entries and exits */
    u32 meddled; /* how often other threads have named owned sockets; KR_SOCKETS_MEDDLED: the holder ends */
    u32 cloning; /* threads of the process that are making processes */
    u32 clones;  /* how often one has begun to */
    u32 guesses; /* calls of other threads that could copy what is at a number which is not owned; atomic */
    u32 nlive, data_used, credits; /* credits: sockets with credit */
    u32 fresh, asked,
        answered; /* prefetch.c: sockets to ask again at an entry; that were asked, and that were read since */
    u64 head;     /* the queue's records up to here have been sent */
    struct kr_opened file;       /* opened.c */
    struct kr_accepted accepted; /* accepted.c */
    u16 live[KR_SOCKETS_LIVE];
    u16 by_data[KR_SOCK_FDS]; /* 1 + descriptor by a hash of its data; 0: none */
    struct kr_socket s[KR_SOCK_FDS];
    u8 bytes[KR_SOCK_MOST]; /* of a file, on their way to a socket */
};

#define KR_SOCKETS_MEDDLED 16

/* sockets.c: the sockets of t's process; NULL if no thread of it has been the holder. Without the lock. */
struct kr_sockets *kr_sockets_of(const struct kr_task *t);
/* Whether the filters of t allow all calls of the way, whatever their arguments are. */
int kr_sockets_allowed(struct kr_task *t, u32 way);

/* All others with the lock held. */

/* sockets.c: the socket's entry has neither bytes nor credit. Its bytes have been taken. */
void kr_socket_clear(struct kr_sockets *k, u32 fd);
/* Resets the connection, where nothing else keeps the stream right: the program gets ECONNRESET. */
void kr_socket_abort(struct kr_sockets *k, u32 fd);
/* The socket becomes one of `live`. 0: there is no room. */
int kr_socket_live(struct kr_sockets *k, u32 fd);

/* prefetch.c: takes what the guest's code has read of the socket out of the kernel's queue. */
void kr_socket_take(struct kr_sockets *k, u32 fd);
int kr_socket_has_bytes(u32 fd);
/* Looks at the next bytes. */
void kr_socket_peek(struct kr_sockets *k, u32 fd);
/* A read of the holder's on the socket is an exit: whether it would be none if the socket had been asked again. */
void kr_socket_missed(struct kr_sockets *k, u32 fd);
/* The holder enters the guest: asks whether there are no more bytes than those that were looked at. */
void kr_sockets_fresh(struct kr_sockets *k);

/* opened.c: whether the call is an open(2) that waits for nobody: not for the other end of a FIFO, nor for the holder of a lease.
 * Without the lock. */
int kr_file_at_once(u32 nr, const u64 a[6]);
/* The open(2) or openat(2) nr(a...) of the holder's has given fd. */
void kr_file_opened(struct kr_sockets *k, u32 fd, u32 nr, const u64 a[6]);
/* The holder makes a call by an exit. */
void kr_file_call(struct kr_sockets *k, u32 nr, const u64 a[6]);
/* The holder enters the guest: offers a file that has just been opened to the guest's code. */
void kr_file_offer(struct kr_sockets *k);
/* A thread has left the guest, and the records have been carried out. */
void kr_file_forget(struct kr_sockets *k);
/* For records, while a file is offered: the bytes, which are valid until the next call; NULL: there are not so many. */
const u8 *kr_file_bytes(struct kr_sockets *k, u64 offset, u32 len);
/* For records: closes it, or opens it again, if it is the file of that number. */
void kr_file_close(struct kr_sockets *k, u32 gen);
void kr_file_open(struct kr_sockets *k, u32 gen);

/* accepted.c: the process accepts a connection: fd, on listener. */
void kr_accepted(struct kr_sockets *k, u32 fd, u32 listener);
/* The holder makes a call by an exit. */
void kr_accepted_call(struct kr_sockets *k, u32 nr, const u64 a[6]);
/* Whether the holder's call, which names fd, is on the connection, or on the socket that has accepted it. */
int kr_accepted_named(const struct kr_sockets *k, u32 fd);
/* The holder enters the guest: tells the guest's code what is known of the connection. */
void kr_accepted_offer(struct kr_sockets *k);
/* For records: closes it, if it is the connection of that number. */
void kr_accepted_close(struct kr_sockets *k, u32 gen);

/* queue.c: gives credit to the socket, if it can be sent on. */
void kr_socket_credit(struct kr_sockets *k, u32 fd);
/* Carries out the records. own: the holder is not in the guest, so that the queue becomes empty. */
void kr_queue_flush(struct kr_sockets *k, int own);
/* Whether a timer ends the holder's next time in the guest. t is the holder. */
int kr_queue_bounded(struct kr_task *t);
/* Before a call that may block: no timer interrupts it. Without the lock. */
void kr_queue_unbound(struct kr_task *t);
/* Makes the timer when the thread becomes the holder; removes it. Without the lock. */
void kr_queue_timer(struct kr_task *t, int make);

#endif
