/* SPDX-License-Identifier: Apache-2.0
 *
 * Linux AIO (io_setup(2) and relatives). The kernel serves the requests, with its limits, order of checks,
 * eventfds, polls and cancellations. The payload never touches the kernel's ring, and the kernel never reads
 * a control block from the payload's memory:
 *
 *   context    The kernel's context lies in monitor memory. The payload's id of it is the address of a
 *              page of zeros in the payload's memory. Libraries take the id for a pointer to a ring, do not find the
 *              ring's magic number there, and make the system call.
 *   iocb       The monitor copies it in once, checks it, and submits it from a slot in monitor memory. The
 *              kernel's event names the slot and a number that no other request has; the payload's event names
 *              the payload's iocb. A thread may submit to a context that another thread destroys, and the kernel
 *              may give that context's address to the next one: so an event can be of a request of another
 *              context, and frees no slot then. Two requests in one slot would let one change what the kernel
 *              reads for the other.
 *
 * Buffers are the payload's pages at the payload's addresses, as with read(2).
 *
 * State: mm->aio, the contexts of the address space. The kernel's contexts belong to the address space as
 * well: threads and CLONE_VM relatives share them, fork copies none, execve and exit end them. Locks:
 * mm->lock for the list, ctx->lock for the slots of a context. No lock is held over a host call.
 */
#include "../process/above.h"
#include "aio.h"
#include "nested.h"
#include "../process/signal.h"
#include <linux/aio_abi.h>
#include <linux/mman.h>

#define BATCH 32u /* requests that go to the kernel in one call */
#define CMD_NONE 0xffffu
#define RW_MAX 0x7ffff000ULL /* MAX_RW_COUNT: the kernel looks at no byte behind it */
#define KEY 0u               /* KIOCB_KEY */

struct slot {
    struct iocb io; /* its address is the request's name in the kernel */
    u64 guest;      /* the payload's iocb; 0: free */
    u64 data;       /* the payload's aio_data; the kernel's is the ticket */
    u64 ticket;     /* the number of the request that has the slot */
    u32 next;       /* 1 + index of the next free slot */
};

struct kr_aio {
    struct kr_aio *next;
    u64 id;   /* the payload's */
    u64 host; /* the kernel's */
    size_t ring_size;
    struct kr_lock lock;
    struct slot *slots; /* as many as the kernel's ring has places */
    u32 nslots, fresh;  /* slots from `fresh` on were never used */
    u32 free;           /* 1 + index of a free one, 0: none */
    u64 ticket;         /* of the last request; the first one is random */
    u32 users;          /* the list, and calls under way; atomic */
};

/* How the kernel's ring begins (struct aio_ring in fs/aio.c). */
struct ring_head {
    u32 id, nr, head, tail, magic, compat, incompat, header_length;
};

/* ---- contexts ---- */

static size_t slots_size(u32 n) { return n * sizeof(struct slot); }

static void put(struct kr_aio *c) {
    if (__atomic_sub_fetch(&c->users, 1, __ATOMIC_ACQ_REL))
        return;
    kr_free(c->slots, slots_size(c->nslots));
    kr_free(c, sizeof *c);
}

static struct kr_aio *find(struct kr_mm *mm, u64 id) {
    kr_lock(&mm->lock);
    struct kr_aio *c = mm->aio;
    while (c && c->id != id)
        c = c->next;
    if (c)
        __atomic_add_fetch(&c->users, 1, __ATOMIC_RELAXED);
    kr_unlock(&mm->lock);
    return c;
}

/* Puts c on the list. 0 if another context has the same id: the payload has unmapped that context's page, and
 * mmap gave the address again. */
static int publish(struct kr_mm *mm, struct kr_aio *c) {
    kr_lock(&mm->lock);
    struct kr_aio *o = mm->aio;
    while (o && o->id != c->id)
        o = o->next;
    if (!o) {
        c->next = mm->aio;
        mm->aio = c;
    }
    kr_unlock(&mm->lock);
    return !o;
}

static int withdraw(struct kr_mm *mm, struct kr_aio *c) {
    kr_lock(&mm->lock);
    struct kr_aio **p = &mm->aio;
    while (*p && *p != c)
        p = &(*p)->next;
    int was = *p != NULL;
    if (was)
        *p = c->next;
    kr_unlock(&mm->lock);
    return was;
}

/* The kernel's context and the slots. 0 or -errno. */
static long open_context(u32 nr, struct kr_aio *c) {
    long r = kr_sys2(__NR_io_setup, nr, &c->host);
    if (r < 0)
        return r;
    struct ring_head h;
    memcpy(&h, (const void *)c->host, sizeof h);
    c->ring_size = KR_PAGE_UP(sizeof h + (u64)h.nr * sizeof(struct io_event));
    c->nslots = h.nr;
    /* The kernel chooses an address far above the window; a ring inside the window would be the payload's. */
    c->slots = c->host >= KR_WINDOW_END ? kr_alloc(slots_size(c->nslots)) : NULL;
    if (c->slots)
        return 0;
    kr_sys1(__NR_io_destroy, c->host);
    return -ENOMEM;
}

long sys_io_setup(struct kr_task *t, const u64 a[6]) {
    u64 id;
    if (kr_copy_in(&id, a[1], sizeof id) < 0)
        return -EFAULT;
    if (id)
        return -EINVAL;
    struct kr_aio *c = kr_alloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    c->users = 1;
    c->ticket = kr_random(~0ULL);
    long r = open_context((u32)a[0], c);
    if (r < 0) {
        kr_free(c, sizeof *c);
        return r;
    }
    r = kr_mm_mmap(t->mm, 0, KR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r > 0) {
        c->id = (u64)r;
        r = !publish(t->mm, c) ? -EAGAIN : kr_copy_out(a[1], &c->id, sizeof c->id);
        if (r == 0)
            return 0;
        withdraw(t->mm, c);
        kr_mm_munmap(t->mm, c->id, KR_PAGE);
    }
    kr_sys1(__NR_io_destroy, c->host);
    put(c);
    return r;
}

long sys_io_destroy(struct kr_task *t, const u64 a[6]) {
    struct kr_aio *c = find(t->mm, a[0]);
    if (!c)
        return -EINVAL;
    long r = -EINVAL; /* another thread has destroyed it first */
    if (withdraw(t->mm, c)) {
        r = kr_sys1(__NR_io_destroy, c->host); /* waits for the requests under way */
        kr_mm_munmap(t->mm, c->id, KR_PAGE);
        put(c);
    }
    put(c);
    return r;
}

void kr_aio_after_fork(struct kr_mm *mm) {
    for (struct kr_aio *c = mm->aio, *next; c; c = next) {
        next = c->next;
        kr_sys2(__NR_munmap, c->host, c->ring_size);
        kr_free(c->slots, slots_size(c->nslots));
        kr_free(c, sizeof *c);
    }
    mm->aio = NULL;
}

/* ---- slots ---- */

static struct slot *take(struct kr_aio *c, u64 guest) {
    struct slot *s = NULL;
    kr_lock(&c->lock);
    if (c->free) {
        s = &c->slots[c->free - 1];
        c->free = s->next;
    } else if (c->fresh < c->nslots) {
        s = &c->slots[c->fresh++];
    }
    if (s) {
        s->guest = guest;
        s->ticket = ++c->ticket;
    }
    kr_unlock(&c->lock);
    return s;
}

/* Frees the slot at address obj of the request `ticket`. The payload's iocb of that slot, and its aio_data in *data;
 * 0 if obj is not a slot that this request has. */
static u64 give_back(struct kr_aio *c, u64 obj, u64 ticket, u64 *data) {
    u64 at = obj - (u64)c->slots, guest = 0;
    *data = 0;
    if (obj < (u64)c->slots || at % sizeof(struct slot) || at / sizeof(struct slot) >= c->nslots)
        return 0;
    struct slot *s = (struct slot *)obj;
    kr_lock(&c->lock);
    if (s->guest && s->ticket == ticket) {
        guest = s->guest;
        *data = s->data;
        s->guest = 0;
        s->next = c->free;
        c->free = (u32)(at / sizeof *s) + 1;
    }
    kr_unlock(&c->lock);
    return guest;
}

/* The same for a request that the kernel did not take. */
static void take_back(struct kr_aio *c, struct slot *s) {
    u64 unused;
    give_back(c, (u64)s, s->ticket, &unused);
}

/* ---- submission ---- */

struct batch {
    u64 host[BATCH]; /* addresses of slots' iocbs */
    struct kr_iovs *iov[BATCH];
    u32 n;
};

/* Makes io, a copy of the payload's iocb, safe for the kernel: no pointer leaves the window, no descriptor is
 * hidden. A wrong value becomes one that the kernel refuses itself. 0 or -ENOMEM. */
static long check(struct iocb *io, struct kr_iovs **iov) {
    io->aio_fildes = (u32)kr_guest_fd(io->aio_fildes);
    if (io->aio_flags & IOCB_FLAG_RESFD)
        io->aio_resfd = (u32)kr_guest_fd(io->aio_resfd);
    switch (io->aio_lio_opcode) {
    case IOCB_CMD_PREAD:
    case IOCB_CMD_PWRITE:
        io->aio_buf = kr_guest_ptr(io->aio_buf, KR_MIN(io->aio_nbytes, RW_MAX));
        return 0;
    case IOCB_CMD_PREADV:
    case IOCB_CMD_PWRITEV: /* the kernel reads the array while it takes the request */
        *iov = kr_alloc(sizeof **iov);
        if (!*iov)
            return -ENOMEM;
        long r = kr_iovs_in(*iov, io->aio_buf, io->aio_nbytes, (u64 *)&io->aio_buf);
        if (r < 0) {
            kr_free(*iov, sizeof **iov);
            *iov = NULL;
        }
        return r;
    case IOCB_CMD_FSYNC:
    case IOCB_CMD_FDSYNC:
    case IOCB_CMD_POLL: /* the buffer is a mask */
        return 0;
    default: /* an opcode of a later kernel: its pointers are unknown */
        io->aio_lio_opcode = CMD_NONE;
        return 0;
    }
}

/* Adds one request to the batch. 0, or -errno if it cannot be submitted. */
static long add(struct kr_aio *c, struct batch *b, u64 ptr) {
    static const u32 key = KEY;
    u64 guest;
    if (kr_copy_in(&guest, ptr, sizeof guest) < 0)
        return -EFAULT;
    struct iocb io;
    if (!guest || kr_copy_in(&io, guest, sizeof io) < 0)
        return -EFAULT;
    struct slot *s = take(c, guest);
    if (!s)
        return -EAGAIN;
    b->iov[b->n] = NULL;
    long r = check(&io, &b->iov[b->n]);
    if (r == 0) {
        s->data = io.aio_data;
        io.aio_data = s->ticket;
        s->io = io; /* a slot never holds what is not checked */
        b->host[b->n++] = (u64)&s->io;
        r = kr_copy_out(guest + offsetof(struct iocb, aio_key), &key, sizeof key);
        if (r < 0)
            b->n--;
    }
    if (r < 0) {
        if (b->iov[b->n]) {
            kr_iovs_drop(b->iov[b->n]);
            kr_free(b->iov[b->n], sizeof **b->iov);
        }
        take_back(c, s);
    }
    return r;
}

/* Submits the batch. The number of requests that the kernel took, or -errno. */
static long submit(struct kr_aio *c, struct batch *b) {
    long r = b->n ? kr_call_intr(__NR_io_submit, c->host, b->n, (u64)b->host, 0, 0, 0) : 0;
    for (u32 i = 0; i < b->n; i++) {
        if (b->iov[i]) {
            kr_iovs_drop(b->iov[i]);
            kr_free(b->iov[i], sizeof **b->iov);
        }
        if ((long)i >= r) /* the slots below r are in use until their events are read */
            take_back(c, (struct slot *)b->host[i]);
    }
    return r;
}

long sys_io_submit(struct kr_task *t, const u64 a[6]) {
    s64 nr = (s64)a[1], done = 0;
    if (nr < 0)
        return -EINVAL;
    if (t->mm->sockets)
        kr_sockets_forget(t);
    struct kr_aio *c = find(t->mm, a[0]);
    if (!c)
        return -EINVAL;
    nr = KR_MIN(nr, (s64)c->nslots);
    long stop = 0;
    while (done < nr && !stop) {
        struct batch b;
        b.n = 0;
        s64 want = KR_MIN(nr - done, (s64)BATCH);
        while ((s64)b.n < want && !stop)
            stop = add(c, &b, a[2] + 8 * (u64)(done + b.n));
        long r = submit(c, &b);
        if (r < 0)
            stop = r;
        else if (r < (long)b.n)
            stop = -EAGAIN; /* the payload sees the errno only if the kernel took no request */
        done += KR_MAX(r, 0L);
    }
    put(c);
    return done ? done : stop;
}

/* ---- completion ---- */

static long get_events(struct kr_task *t, long nr, const u64 a[6], const void *sig) {
    s64 least = (s64)a[1], most = (s64)a[2];
    struct kr_aio *c = find(t->mm, a[0]);
    if (!c)
        return -EINVAL;
    long r = -EINVAL;
    if (least < 0 || least > most)
        goto out;
    u64 room = KR_MIN((u64)most, (u64)c->nslots), size = KR_MAX(room, 1ULL) * sizeof(struct io_event);
    struct io_event few[16], *e = kr_temp(few, sizeof few, size);
    r = -ENOMEM;
    if (!e)
        goto out;
    r = kr_call_intr(nr, c->host, KR_MIN((u64)least, room), room, (u64)e, a[4], (u64)sig);
    for (long i = 0; i < r; i++) {
        u64 data;
        e[i].obj = give_back(c, e[i].obj, e[i].data, &data);
        e[i].data = data;
    }
    if (r > 0 && kr_copy_out(a[3], e, (u64)r * sizeof *e) < 0)
        r = -EFAULT;
    kr_temp_drop(e, few, size);
out:
    put(c);
    return r;
}

long sys_io_getevents(struct kr_task *t, const u64 a[6]) { return get_events(t, __NR_io_getevents, a, NULL); }

long sys_io_pgetevents(struct kr_task *t, const u64 a[6]) {
    struct {
        u64 mask, size;
    } guest = {0, 0}, host = {0, 8};
    if (a[5] && kr_copy_in(&guest, a[5], sizeof guest) < 0)
        return -EFAULT;
    kr_sigset mask;
    long r = kr_wait_mask_begin(t, guest.mask, guest.size, &mask);
    if (r < 0)
        return r;
    int masked = r == 0;
    if (masked)
        host.mask = (u64)&mask;
    r = get_events(t, __NR_io_pgetevents, a, &host);
    if (masked)
        kr_wait_mask_end(t);
    return r;
}

long sys_io_cancel(struct kr_task *t, const u64 a[6]) {
    u32 key;
    struct io_event result;
    if (!a[1] || kr_copy_in(&key, a[1] + offsetof(struct iocb, aio_key), sizeof key) < 0)
        return -EFAULT;
    if (key != KEY)
        return -EINVAL;
    struct kr_aio *c = find(t->mm, a[0]);
    if (!c)
        return -EINVAL;
    long r = -EINVAL;
    for (u32 i = 0; i < c->nslots && r == -EINVAL; i++) { /* the same iocb may be under way twice */
        kr_lock(&c->lock);
        int end = i >= c->fresh, is = !end && c->slots[i].guest == a[1];
        kr_unlock(&c->lock);
        if (end)
            break;
        if (is)
            r = kr_sys3(__NR_io_cancel, c->host, &c->slots[i].io, &result);
    }
    put(c);
    return r;
}
