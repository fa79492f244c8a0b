/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: completion queues, counters and rings (complete.c, counter.c, queue.c) */
#ifndef TREADLE_QUEUE_H
#define TREADLE_QUEUE_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/wait.h>

#include "job.h"
#include "match.h"
#include "object.h"

struct treadle_cmd;
struct treadle_ep;

/* --- completion queue and counter ------------------------------------------------- */

struct treadle_cq_node;

/* What its memory wants when a completion is kept (under cq->lock; may be NULL), and is not any more (without). */
struct treadle_cq_memory {
	void (*keep)(struct treadle_cq_node *node);
	void (*free)(struct treadle_cq_node *node);
};

/* A completion that the kernel keeps. */
struct treadle_cq_node {
	struct list_head link;
	struct treadle_cqe cqe;
	const struct treadle_cq_memory *memory;
};

/*
 * Who waits for a queue or counter. @signals: SIGNAL calls; @unseen: one without a waiter; @ended: the
 * object was destroyed
 */
struct treadle_waitq {
	wait_queue_head_t head;
	spinlock_t signaling; /* of the number, and of that in the page of a CQ */
	u32 signals;
	atomic_t unseen;
	bool ended;
};

static inline void treadle_waitq_init(struct treadle_waitq *w)
{
	init_waitqueue_head(&w->head);
	spin_lock_init(&w->signaling);
}

/*
 * F: is anybody to be woken? Asked under the lock of the object, once what is waited for was written: a waiter
 * queues himself, has had that lock, and then looks. treadle_wake() comes without the lock, as there may be many.
 */
static __always_inline bool treadle_awaited(struct treadle_waitq *w)
{
	return waitqueue_active(&w->head);
}

static __always_inline void treadle_wake(struct treadle_waitq *w, bool awaited)
{
	if (unlikely(awaited))
		wake_up_all(&w->head);
}

/*
 * struct treadle_cq - completion queue
 * @lock:     ring and overflow list
 * @prod:     the kernel's own index (under @lock)
 * @overflow: completions that did not fit, oldest first (under @lock)
 * @kept:     their number (written under @lock)
 * @dead:     destroyed: completions are dropped (under @lock)
 */
struct treadle_cq {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_area ro, rw;
	struct treadle_cqe *cqes;
	u32 mask, prod;
	struct list_head overflow;
	u32 kept;
	bool dead;
	struct treadle_waitq waitq;
};

int treadle_cq_post(struct treadle_ep *ep, u16 port, struct treadle_cqe *cqe);
void treadle_cq_flush(struct treadle_cq *cq);
void treadle_cq_shutdown(struct treadle_cq *cq);
bool treadle_cq_ready(struct treadle_cq *cq);
void treadle_cq_tell_signals(struct treadle_cq *cq, u32 signals);
void treadle_cq_free(struct treadle_obj *obj);

/*
 * struct treadle_cntr - counter, and the commands armed on it
 * @trigger: commands by (threshold, submission); its lock is that of the values and @active
 * @page:   the two values, mapped read-only
 * @bytes:  TREADLE_CNTR_BYTES (constant)
 * @active: @job is queued or running: exactly one runner fires, in order
 * @errors: how often page->error has changed (written under the lock)
 * @why:    errno of the first error that was counted, 0 if there is none
 */
struct treadle_cntr {
	struct treadle_obj obj;
	struct treadle_trigger trigger;
	struct treadle_area ro;
	struct treadle_cntr_page *page;
	bool bytes, active;
	u32 errors;
	int why;
	struct treadle_job job;
	struct treadle_waitq waitq;
};

/* @error: 0: successes; else errors, for that reason */
void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);
void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);

/**
 * treadle_cntr_count - count an operation that has ended
 * @cntr:	the counter
 * @len:	bytes that the operation has transferred, not used if it has failed
 * @error:	0, or why it has failed
 * @run:	takes what the new value fires
 *
 * An error counts as one, whatever the counter counts.
 */
static inline void treadle_cntr_count(struct treadle_cntr *cntr, u64 len, int error,
				      struct treadle_run *run)
{
	treadle_cntr_add(cntr, cntr->bytes && !error ? len : 1, error, run);
}

void treadle_cntr_arm(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cntr_again(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cntr_free(struct treadle_obj *obj);

/* --- rings ----------------------------------------------------------------------- */

/*
 * struct treadle_tx - transmit ring
 * @lock:	one doorbell at a time; ring.head
 * @ep:		endpoint of descriptors that name none (set under ctx->lock,
 *		cleared under @lock)
 * @reserve:	for the one command that a doorbell has on its stack, where no memory is to be had: it
 *		keeps the completion, or what is told to the peer (under @lock; NULL only in between)
 */
struct treadle_tx {
	struct treadle_obj obj;
	struct mutex lock;
	bool shared;
	struct treadle_ep *ep;
	struct treadle_cmd *reserve;
	struct treadle_ring ring;
};

enum treadle_recv_kind {
	TREADLE_RECV_ONE,
	TREADLE_RECV_MULTI, /* takes several messages, see multi.c */
	TREADLE_RECV_PART,  /* what one of them gets of it */
};

/*
 * struct treadle_recv - a posted receive
 * @m:		while posted; @node: when its completion did not fit; @next: free
 * @one:	the buffer; of a vector without an address, and of all its length
 * @cmd:	was armed: whom to notify; NULL: one of rx->slots, or a part
 * @ext:	of a vector in the ring: the second slot, whose memory holds it
 * @space:	which matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @kind:	enum treadle_recv_kind
 * @multi:	of a part: what it is a part of
 *
 * Of a multi-receive (rx->lock), whose @one is what is left:
 * @min:	it ends when less is left
 * @parts:	parts that have not finished
 * @over:	it takes no more messages; with @error: 0 or -ECANCELED
 * @told:	its last part has said so
 *
 * There is one for each slot of the ring, and one in each command, so that neither taking a
 * receive off the ring nor firing one needs memory.
 */
struct treadle_recv {
	union {
		struct {
			struct treadle_match_recv m;
			u64 context;
			struct treadle_iov one;
		};
		struct treadle_cq_node node;
		struct treadle_recv *next;
	};
	struct treadle_rx *rx;
	struct treadle_cmd *cmd;
	union {
		struct treadle_rx_slot *ext;
		struct treadle_recv *multi;
		u64 min;
	};
	u32 flags, parts;
	s16 error;
	u8 iov_count, space, kind;
	bool over, told;
};
/* It lies over the descriptor of its command. */
static_assert(sizeof(struct treadle_recv) <= sizeof(struct treadle_desc));

/*
 * struct treadle_rx_slot - a receive of a ring, or the vector of another one
 * @posted:	@recv is in the matcher (rx->lock)
 */
struct treadle_rx_slot {
	union {
		struct treadle_recv recv;
		struct treadle_iov iov[TREADLE_MAX_IOV];
	};
	bool posted;
};

enum { TREADLE_PLAIN, TREADLE_TAGGED, TREADLE_COLLECTIVE, TREADLE_CLAIMED, TREADLE_MATCHES };

/*
 * struct treadle_rx - receive ring and matcher
 * @lock:	everything here
 * @match:	plain, tagged, collective, and messages that were claimed, by the context of who did
 * @slots:	one for each slot of the ring; @free: those not in use
 * @seq:	receives posted; @mourned: treadle_ctx_mourn() of this number was here (without @lock)
 * @returned:	messages that came back to places where a search may have been
 * @feeding:	receives for which messages may wait that have not been looked at, by m.wild: they
 *		come before what is in the ring
 * @at:		how far the first of them has got
 * @eps:	endpoints that receive here, those with a queue first: the first one's gets the errors of
 *		receives that no message has reached; @queued: the last one with a queue, or @eps itself
 * @named:	those with an address vector, as they were enabled: the first one's says who is named in the ring
 * @armed:	commands of posted receives that are not of @slots, by (context, @seq)
 * @awaiting:	those of collective ones instead, by (port of the source, @seq)
 * @buffered, @buffered_max: bytes of copies of messages
 * @shared:	TREADLE_RX_SHARED
 * @shut:	the connection of the only endpoint is over: nothing is posted any more; @flushing: how many have
 *		receives in their hands that this ends
 * @handed:	@job, which holds this, takes what is posted
 * @poor:	the last part of a multi-receive was beyond the limit of who receives (without @lock)
 */
struct treadle_rx {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_ring ring;
	struct treadle_match match[TREADLE_MATCHES];
	struct treadle_rx_slot *slots;
	struct treadle_recv *free;
	struct list_head feeding;
	struct treadle_match_place at;
	u64 seq, mourned, returned;
	struct list_head eps, *queued, named;
	struct rb_root_cached armed, awaiting;
	u32 buffered, buffered_max, flushing;
	bool shared, shut, handed, poor;
	struct treadle_job job;
};

/* Of a receive of the ring. */
static inline struct treadle_rx_slot *treadle_recv_slot(struct treadle_recv *recv)
{
	return container_of(recv, struct treadle_rx_slot, recv);
}

/* Where the command of @recv is while that is posted. */
static inline struct rb_root_cached *treadle_recv_root(const struct treadle_recv *recv)
{
	return recv->space == TREADLE_COLLECTIVE ? &recv->rx->awaiting : &recv->rx->armed;
}

/* queue.c */
void treadle_tx_free(struct treadle_obj *obj);
void treadle_rx_free(struct treadle_obj *obj);

#endif
