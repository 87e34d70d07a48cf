/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory by which the guest's code completes calls on TCP sockets, and on the file that is to be sent by one (local/sockets.h,
 * local/opened.c): offsets for engine_read.inc, engine_queue.inc and engine_file.inc, and the same as structures for the monitor. One area for each VM, because one thread of a process has
 * the sockets. It lies in the system area at a fixed address.
 *
 *   head, entries, data   ring 3 reads them, only the monitor writes them, and never reads them back
 *   control, queue        ring 3 writes them, too: every thread of the payload may. The monitor copies each value once
 *                         and takes it for what the payload says of itself
 */
#ifndef KR_SOCKETPAGE_H
#define KR_SOCKETPAGE_H

#define KR_SOCK_GVA 0x6c0000040000 /* KR_SYS_BASE + KR_SYS_SOCKETS */

#define KR_SOCK_FDS 1024   /* descriptors from this number on are not looked at */
#define KR_SOCK_MOST 16384 /* bytes of one record */
#define KR_SOCK_VECTORS 16 /* parts of a writev */
#define KR_SOCK_PATH 1024  /* bytes of a path, with its NUL */
#define KR_SOCK_SKB 2048   /* bytes of the send buffer that a call takes beside its data, at most */
#define KR_SOCK_DATA_SIZE 0x10000
#define KR_SOCK_QUEUE_SIZE 0x10000

/* Offsets in the area. */
#define KR_SK_LIMIT 0x0
#define KR_SK_FILE_GEN 0x40
#define KR_SK_FILE_FD 0x44
#define KR_SK_FILE_SIZE 0x48
#define KR_SK_FILE_STAT 0x50
#define KR_SK_FILE_STEADY 0xe0
#define KR_SK_FILE_DIRFD 0xe4
#define KR_SK_FILE_FLAGS 0xe8
#define KR_SK_FILE_PATH_SIZE 0xec
#define KR_SK_FILE_PATH 0xf0
#define KR_SK_ENTRIES 0x1000
#define KR_SK_AC_GEN 0x9000
#define KR_SK_AC_FD 0x9004
#define KR_SK_AC_CLOSES 0x9008
#define KR_SK_AC_FD_FLAGS 0x900c
#define KR_SK_AC_FLAGS 0x9010
#define KR_SK_AC_NONBLOCK 0x9014
#define KR_SK_AC_NAME 0x9018
#define KR_SK_AC_LISTENER 0x903c
#define KR_SK_DATA 0x10000
#define KR_SK_USED 0x20000
#define KR_SK_SPENT 0x22000
#define KR_SK_TAIL 0x24000
#define KR_SK_CLOSED 0x24008
#define KR_SK_AC_CLOSED 0x24010
#define KR_SK_CONTROL_END 0x25000
#define KR_SK_QUEUE 0x30000
#define KR_SK_SIZE 0x40000

/* An entry: 32 bytes. */
#define KR_SE_SHIFT 5
#define KR_SE_LEN 0
#define KR_SE_WHOLE 4
#define KR_SE_OFF 8
#define KR_SE_CREDIT 12
#define KR_SE_GEN 16

/* A record's header: 16 bytes. The data follow, and are padded to a multiple of 8 bytes. */
#define KR_SR_FD 0
#define KR_SR_LEN 4
#define KR_SR_GEN 8
#define KR_SR_KIND 12
#define KR_SR_HEADER 16

/* A socket's name: 36 bytes. */
#define KR_SN_FD 0
#define KR_SN_LEN 4
#define KR_SN_ADDR 8
#define KR_SN_MOST 28

/* Kinds of records. */
#define KR_SR_DATA 0  /* the data follow */
#define KR_SR_FILE 1  /* bytes of the file, from the offset that follows */
#define KR_SR_CLOSE 2 /* the file is closed */
#define KR_SR_OPEN 3  /* and opened again */
#define KR_SR_LEAVE 4 /* the connection that was accepted is closed */

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct kr_sock_entry {
    uint32_t len;    /* bytes in `data` that the socket's queue begins with; 0: none */
    uint32_t whole;  /* the socket had no more */
    uint32_t off;    /* where in `data` */
    uint32_t credit; /* bytes of the send buffer that calls may take; 0: no call is deferred */
    uint32_t gen;
    uint32_t pad[3];
};

/* The file that the last exit has opened. */
struct kr_sock_file {
    uint32_t gen; /* counts the files; 0: none */
    uint32_t fd;
    uint64_t size;
    uint8_t stat[144]; /* struct stat of the kernel */
    uint32_t steady;   /* sending the file does not change what fstat says */
    uint32_t dirfd, flags,
        path_size; /* how it was opened; path_size with the NUL; 0: it cannot be opened again */
    char path[KR_SOCK_PATH];
};

/* What getsockname(2) says of a socket. */
struct kr_sock_name {
    uint32_t fd, len; /* 0: not known */
    uint8_t addr[KR_SN_MOST];
};

/* The connection that the process has accepted last. */
struct kr_sock_accepted {
    uint32_t gen; /* counts them; 0: none */
    uint32_t fd;
    uint32_t closes;                    /* close(2) does not wait */
    uint32_t fd_flags, flags, nonblock; /* as fcntl(2) gives them; 1: O_NONBLOCK */
    struct kr_sock_name name, listener;
};

struct kr_sock_record {
    uint32_t fd, len, gen, kind;
};

struct kr_sock_area {
    uint64_t limit; /* where the queue ends; 0: no call is deferred */
    uint8_t pad0[KR_SK_FILE_GEN - 8];
    struct kr_sock_file file;
    uint8_t pad1[KR_SK_ENTRIES - KR_SK_FILE_GEN - sizeof(struct kr_sock_file)];
    struct kr_sock_entry entry[KR_SOCK_FDS];
    struct kr_sock_accepted accepted;
    uint8_t pad2[KR_SK_DATA - KR_SK_AC_GEN - sizeof(struct kr_sock_accepted)];
    uint8_t data[KR_SOCK_DATA_SIZE];
    volatile uint64_t used[KR_SOCK_FDS];  /* by descriptor: bytes of `data` that calls have read */
    volatile uint64_t spent[KR_SOCK_FDS]; /* by descriptor: bytes of `credit` that calls have taken */
    volatile uint64_t tail;               /* where the next record begins */
    volatile uint32_t closed;             /* the file that has been closed, by its gen */
    uint32_t pad3;
    volatile uint32_t left; /* the connection that has been closed, by its gen */
    uint8_t pad4[KR_SK_QUEUE - KR_SK_AC_CLOSED - 4];
    volatile uint8_t queue[KR_SOCK_QUEUE_SIZE];
};

_Static_assert(offsetof(struct kr_sock_area, limit) == KR_SK_LIMIT, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_area, entry) == KR_SK_ENTRIES, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_area, data) == KR_SK_DATA, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_area, used) == KR_SK_USED, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_area, spent) == KR_SK_SPENT, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_area, tail) == KR_SK_TAIL, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_area, closed) == KR_SK_CLOSED, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_area, accepted) == KR_SK_AC_GEN, "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, fd) == KR_SK_AC_FD - KR_SK_AC_GEN, "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, closes) == KR_SK_AC_CLOSES - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, fd_flags) == KR_SK_AC_FD_FLAGS - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, flags) == KR_SK_AC_FLAGS - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, nonblock) == KR_SK_AC_NONBLOCK - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, name) == KR_SK_AC_NAME - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_accepted, listener) == KR_SK_AC_LISTENER - KR_SK_AC_GEN,
               "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_name, addr) == KR_SN_ADDR, "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_area, left) == KR_SK_AC_CLOSED, "engine_accepted.inc");
_Static_assert(offsetof(struct kr_sock_area, file) == KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, fd) == KR_SK_FILE_FD - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, size) == KR_SK_FILE_SIZE - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, stat) == KR_SK_FILE_STAT - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, steady) == KR_SK_FILE_STEADY - KR_SK_FILE_GEN,
               "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, dirfd) == KR_SK_FILE_DIRFD - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, flags) == KR_SK_FILE_FLAGS - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, path_size) == KR_SK_FILE_PATH_SIZE - KR_SK_FILE_GEN,
               "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_file, path) == KR_SK_FILE_PATH - KR_SK_FILE_GEN, "engine_file.inc");
_Static_assert(offsetof(struct kr_sock_record, kind) == KR_SR_KIND, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_area, queue) == KR_SK_QUEUE, "engine_queue.inc");
_Static_assert(sizeof(struct kr_sock_area) == KR_SK_SIZE, "whole pages");
_Static_assert(sizeof(struct kr_sock_entry) == 1 << KR_SE_SHIFT, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_entry, len) == KR_SE_LEN, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_entry, whole) == KR_SE_WHOLE, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_entry, off) == KR_SE_OFF, "engine_read.inc");
_Static_assert(offsetof(struct kr_sock_entry, credit) == KR_SE_CREDIT, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_entry, gen) == KR_SE_GEN, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_record, fd) == KR_SR_FD, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_record, len) == KR_SR_LEN, "engine_queue.inc");
_Static_assert(offsetof(struct kr_sock_record, gen) == KR_SR_GEN, "engine_queue.inc");
_Static_assert(sizeof(struct kr_sock_record) == KR_SR_HEADER, "engine_queue.inc");
#endif
#endif
