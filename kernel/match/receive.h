/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: receives and messages meet (rx.c, receive.c, multi.c, op_peek.c, withdraw.c, told.c, msg.c) */
#ifndef TREADLE_RECEIVE_H
#define TREADLE_RECEIVE_H

#include "exec/command.h"

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

/*
 * struct treadle_msg - a message on its way
 * @ref:	of an allocated one: the sender's path, or the queue, or the job
 * @job:	when a worker goes on with it
 * @m:		while unexpected
 * @to:		target; held if @heap
 * @cmd:	whose buffers to copy and whom to tell at delivery; NULL: the sender
 *		has been told, @payload has it all
 * @recv:	what it was matched with; @part: its bytes of a multi-receive
 * @done:	bytes copied, into @payload before and to @recv after the match
 * @port:	of the sender
 * @space:	which matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @charge:	bytes of rx->buffered
 * @queued:	in to->rx's matcher (rx->lock), for anybody; @cmd is parked then (its endpoint's lock)
 * @claimed:	kept there for who has claimed it, and no more @queued (rx->lock)
 * @lent:	its place there is kept, as @recv is of another endpoint, and nobody else has it any more (rx->lock)
 * @payload:	the kernel's copy (behind this structure), or NULL
 */
struct treadle_msg {
	struct kref ref;
	struct treadle_job job;
	struct treadle_match_msg m;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_recv *recv;
	u64 len, done, data;
	u32 flags, charge;
	u16 port;
	u8 space;
	bool queued, heap, claimed, lent;
	u8 *payload;
	struct treadle_iov part;
};

static inline const struct treadle_iov *treadle_recv_iov(const struct treadle_recv *recv)
{
	if (likely(recv->iov_count <= 1))
		return &recv->one;
	return recv->cmd ? recv->cmd->vec->iov : recv->ext->iov;
}

/* receive.c; take to dequeue, and quiet to withdraw, under rx->lock */
struct treadle_recv *treadle_cmd_recv(struct treadle_cmd *cmd, int *error);
struct treadle_ep *treadle_rx_ep(struct treadle_rx *rx);
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock);
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg,
			const struct treadle_recv *recv);
bool treadle_rx_lends(const struct treadle_recv *recv, const struct treadle_msg *msg);
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_unfeed(struct treadle_recv *recv);
void treadle_rx_feed(struct treadle_rx *rx, struct treadle_run *run);
void treadle_rx_hand_over(struct treadle_rx *rx);
bool treadle_rx_behind(struct treadle_rx *rx);
bool treadle_rx_shut(struct treadle_rx *rx, const struct treadle_run *run);
int treadle_rx_doorbell(struct treadle_rx *rx);
void treadle_rx_quiet(struct treadle_rx *rx);
void treadle_rx_post(struct treadle_rx *rx, struct treadle_recv *recv);
void treadle_rx_withdraw(struct treadle_recv *recv);

/* rx.c */
void treadle_recv_free(struct treadle_recv *recv);
void treadle_rx_grow(struct treadle_rx *rx, u32 which, struct treadle_run *run);
bool treadle_rx_charge(struct treadle_rx *rx, u32 bytes);
void treadle_rx_uncharge(struct treadle_rx *rx, u32 bytes);

/* withdraw.c */
void treadle_rx_tell(struct treadle_recv *recv, struct treadle_ep *ep, int error,
		     struct treadle_run *run);
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run);
void treadle_rx_bereave(struct treadle_rx *rx, u32 port, const u64 *seq, int error,
			struct treadle_run *run);
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run);
void treadle_rx_mourn(struct treadle_rx *rx, struct treadle_ctx *ctx, struct treadle_run *run);
void treadle_rx_flush(struct treadle_rx *rx, struct treadle_ep *ep, u32 slot,
		      struct treadle_run *run);
void treadle_rx_flushed(struct treadle_rx *rx);

/* multi.c; cut and cancel under rx->lock */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg);
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg, const struct treadle_run *run);
bool treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run);
void treadle_multi_uncut(struct treadle_msg *msg, struct treadle_recv *multi,
			 struct treadle_run *run);
bool treadle_multi_cancel(struct treadle_recv *multi, int error);
void treadle_multi_uncancel(struct treadle_recv *multi);

/* op_peek.c */
int treadle_peek_prep(const struct treadle_desc *d);
void treadle_peek_issue(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_run *run);

bool treadle_recv_is_long(const struct treadle_cmd *cmd);
int treadle_ioc_rx_create(struct treadle_ucmd *u);

/* msg.c */
void treadle_msg_put(struct treadle_msg *msg);
void treadle_msg_give_back(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
	__must_hold(&rx->lock);
int treadle_msg_park(struct treadle_msg *msg);

/* What is not delivered is dropped, and the sender told of success: fi_domain(3), "DGRAM EP". */
static inline bool treadle_msg_is_lossy(const struct treadle_msg *m)
{
	return m->to->type == TREADLE_EP_DGRAM;
}

/*
 * Has its sender @from closed? Then what was before it in its order may have been taken back, under the lock under which it
 * has met a receive since (rx->lock). What was injected is on its way, and datagrams have no order.
 */
static inline bool treadle_msg_is_late(const struct treadle_msg *m, const struct treadle_ep *from)
{
	return unlikely(READ_ONCE(from->closed)) && !(m->flags & TREADLE_F_INJECT) &&
	       !treadle_msg_is_lossy(m);
}

/* told.c */
int treadle_cq_post(struct treadle_ep *ep, u16 port, struct treadle_cqe *cqe);
bool treadle_recv_tell(struct treadle_recv *recv, struct treadle_ep *ep,
		       const struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run);

#endif
