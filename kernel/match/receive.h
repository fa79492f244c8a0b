/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: matching receives with messages (rx.c, receive.c, drain.c, await.c, multi.c, op_peek.c,
 * withdraw.c, recv_complete.c, msg.c)
 */
#ifndef TREADLE_RECEIVE_H
#define TREADLE_RECEIVE_H

#include "exec/command.h"

/*
 * struct treadle_rx_slot - a receive of a ring, or the vector of buffers of another slot's receive
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
 * @lock:	protects everything here, unless noted otherwise
 * @match:	plain, tagged and collective matchers; and the claimed messages, by the context of
 *		the claim
 * @slots:	one for each slot of the ring; @free: list of the unused ones
 * @seq:	sequence number of the next receive
 * @returned:	counts messages that were given back to their place, which a search may have passed
 * @feeding:	receives that have not been compared with all waiting messages yet, by m.wild; they
 *		are older than those in the ring
 * @at:	mark of the first of them: where its search goes on
 * @eps:	endpoints that receive here, those with a completion queue first; see
 *		treadle_rx_ep()
 * @queued:	last entry of @eps with a completion queue, or @eps itself
 * @named:	endpoints with an address vector, in the order of enabling; the first one's vector
 *		resolves peers that receives in the ring name
 * @armed:	posted receives that came as commands, not from @slots, by (context, @seq)
 * @awaiting:	the same for collective receives, by (source, @seq)
 * @buffered:	bytes charged for copies of unexpected messages; at most @buffered_max
 * @shared:	TREADLE_RX_SHARED; @laned: TREADLE_RX_LANES; constant
 * @offers:	lanes that were offered to the endpoint of @laned, and not taken, the oldest first
 *		(path/lane.c); @lanes: those that were taken. @nr_lanes: how many in both
 * @shut:	the connection of the only endpoint is over: posted receives are canceled
 * @flushing:	number of treadle_rx_flush() calls that are completing receives without @lock
 * @handed:	@job is queued or running, and takes receives from the ring; it holds a reference
 *		to @obj
 * @poor:	the last part of a multi-receive exceeded the memory limit of the receiver (without
 *		@lock)
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
	u64 seq, returned;
	struct list_head eps, *queued, named;
	struct rb_root_cached armed, awaiting;
	u32 buffered, buffered_max, flushing;
	bool shared, laned, shut, handed, poor;
	struct list_head offers, lanes;
	u32 nr_lanes;
	struct treadle_job job;
};

/**
 * treadle_rx_quiet - stop asking for doorbells if no message waits for a receive
 * @rx:	the ring
 *
 * After the end of its connection a ring goes on asking, as what is posted there has to be
 * canceled.
 *
 * Context: rx->lock held.
 */
static inline void treadle_rx_quiet(struct treadle_rx *rx)
{
	lockdep_assert_held(&rx->lock);
	if (!rx->match[TREADLE_PLAIN].messages && !rx->match[TREADLE_TAGGED].messages && !rx->shut)
		treadle_ring_quiet(&rx->ring);
}

/* The slot of a receive that came through the ring (recv->cmd is NULL). */
static inline struct treadle_rx_slot *treadle_recv_slot(struct treadle_recv *recv)
{
	return container_of(recv, struct treadle_rx_slot, recv);
}

/**
 * treadle_recv_release - give the slots of a receive back to the ring
 * @recv:	the receive of a slot (recv->cmd is NULL, and it is no part), in no matcher
 *
 * Context: Takes rx->lock.
 */
static __always_inline void treadle_recv_release(struct treadle_recv *recv)
{
	struct treadle_rx *rx = recv->rx;
	u32 slots = 1;

	spin_lock(&rx->lock);
	if (unlikely(recv->iov_count > 1)) {
		struct treadle_recv *ext = &recv->ext->recv;

		ext->rx = rx; /* its vector lay over this field */
		ext->next = rx->free;
		rx->free = ext;
		slots++;
	}
	recv->next = rx->free;
	rx->free = recv;
	treadle_ring_release(&rx->ring, slots);
	spin_unlock(&rx->lock);
}

/* The tree that holds the command of @recv while @recv is posted. */
static inline struct rb_root_cached *treadle_recv_root(const struct treadle_recv *recv)
{
	return recv->space == TREADLE_COLLECTIVE ? &recv->rx->awaiting : &recv->rx->armed;
}

/*
 * struct treadle_msg_ops - where messages come from: their bytes, and their sender. On this
 * machine: path/local.c. Each is called only while the message has a command.
 * @fetch:	copies up to @len bytes of the message to @to, from msg->done on, which counts them.
 *		Returns as treadle_copy(), also without a command. Or -EIOCBQUEUED: the delivery
 *		goes on by msg->job when they have come. May sleep
 * @complete:	ends the sender's command. May sleep
 * @park:	notes at the sender that its message waits, so that it can be taken back. 0, or the
 *		error of a sender that is closed: the message must not wait. Under rx->lock
 * @unpark:	undoes it, as the message leaves the matcher. Under rx->lock
 */
struct treadle_msg_ops {
	int (*fetch)(struct treadle_msg *msg, struct treadle_span *to, u64 len,
		     struct treadle_run *run, enum treadle_side *side);
	void (*complete)(struct treadle_msg *msg, int error, struct treadle_run *run);
	int (*park)(struct treadle_msg *msg);
	void (*unpark)(struct treadle_msg *msg);
};

/*
 * struct treadle_msg - a message on its way
 * @ref:	of an allocated message: held by the sender's path, then by the queue or the job
 * @job:	continues the delivery in a worker, or later in a run
 * @m:	while it is unexpected: its entry in the matcher
 * @ops:	of the kind of its sender
 * @to:	target; holds a reference if @heap
 * @cmd:	command of the sender: source of the bytes, completed at delivery. NULL: the
 *		sender's command is completed, and @payload has all bytes
 * @recv:	the receive that it has matched; @part: bytes that it gets of a multi-receive
 * @done:	bytes copied: into @payload before the match, into the buffers of @recv after it
 * @source:	the sender
 * @space:	which matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @charge:	bytes charged to rx->buffered
 * @queued:	in the matcher of to->rx, where any receive may match it (rx->lock); @cmd, if there
 *		is one, is parked at its endpoint then (ep->lock of that)
 * @claimed:	in the matcher of claimed messages, and not @queued (rx->lock)
 * @lent:	keeps its place in the matcher during delivery, as @recv is of another endpoint and
 *		@payload is the only copy left (rx->lock)
 * @payload:	the kernel's copy (behind this structure), or NULL
 * @from:	without @cmd: its number, or 0, and context and id of the sender, for tracepoints
 */
struct treadle_msg {
	struct kref ref;
	struct treadle_job job;
	struct treadle_match_msg m;
	const struct treadle_msg_ops *ops;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_recv *recv;
	u64 len, done, data;
	u32 flags, charge;
	u32 source;
	u8 space;
	bool queued, heap, claimed, lent;
	u8 *payload;
	struct {
		u32 id, ctx, ep;
	} from;
	struct treadle_iov part;
};

static inline const struct treadle_iov *treadle_recv_iov(const struct treadle_recv *recv)
{
	if (likely(recv->iov_count <= 1))
		return &recv->one;
	return recv->cmd ? recv->cmd->vec->iov : recv->ext->iov;
}

/* receive.c */
struct treadle_recv *treadle_cmd_recv(struct treadle_cmd *cmd, int *error);
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock);
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_place_again(struct treadle_rx *rx, struct treadle_recv *recv,
			    struct treadle_run *run);
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg,
			const struct treadle_recv *recv);

void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_feed(struct treadle_rx *rx, struct treadle_run *run);
void treadle_rx_hand_over(struct treadle_rx *rx);
bool treadle_rx_behind(struct treadle_rx *rx);
bool treadle_rx_shut(struct treadle_rx *rx, const struct treadle_run *run);
int treadle_rx_doorbell(struct treadle_rx *rx);
void treadle_rx_post(struct treadle_rx *rx, struct treadle_recv *recv);
void treadle_rx_withdraw(struct treadle_recv *recv);

/* rx.c */
struct treadle_ep *treadle_rx_ep(struct treadle_rx *rx);
void treadle_recv_free(struct treadle_recv *recv);
void treadle_rx_grow(struct treadle_rx *rx, u32 which, struct treadle_run *run);
bool treadle_rx_charge(struct treadle_rx *rx, u32 bytes);
void treadle_rx_uncharge(struct treadle_rx *rx, u32 bytes);

/* withdraw.c */
void treadle_rx_unfeed(struct treadle_recv *recv);
void treadle_rx_notify(struct treadle_recv *recv, struct treadle_ep *ep, int error,
		       struct treadle_run *run);
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run);
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run);
void treadle_rx_flush(struct treadle_rx *rx, struct treadle_ep *ep, u32 slot,
		      struct treadle_run *run);
void treadle_rx_flushed(struct treadle_rx *rx);

/* await.c */
void treadle_rx_await(struct treadle_rx *rx, u32 source, u64 seq, struct treadle_run *run);
void treadle_rx_await_ep(struct treadle_rx *rx, struct treadle_ep *from, u32 source, u64 seq,
			 struct treadle_run *run);
void treadle_rx_lost(struct treadle_rx *rx, u32 source, u64 seq, int error,
		     struct treadle_run *run);
void treadle_recv_unawait(struct treadle_recv *recv);
void treadle_ep_notify_death(struct treadle_ep *ep, struct treadle_run *run);

/* multi.c */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg);
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg, const struct treadle_run *run);
bool treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run);
void treadle_multi_uncut(struct treadle_msg *msg, struct treadle_recv *multi,
			 struct treadle_run *run);
bool treadle_multi_cancel(struct treadle_recv *multi, int error);
void treadle_multi_uncancel(struct treadle_recv *multi);

/* op_peek.c */
int treadle_peek_validate(const struct treadle_desc *d);
void treadle_peek_issue(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_run *run);

bool treadle_recv_is_long(const struct treadle_cmd *cmd);
int treadle_ioc_rx_create(struct treadle_ucmd *u);

/* msg.c */
bool treadle_rx_lends(const struct treadle_recv *recv, const struct treadle_msg *msg);
void treadle_msg_put(struct treadle_msg *msg);
void treadle_msg_give_back(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
	__must_hold(&rx->lock);

/* Undelivered datagrams are dropped, and the send succeeds: fi_domain(3), "DGRAM EP". */
static inline bool treadle_msg_is_lossy(const struct treadle_msg *m)
{
	return m->to->type == TREADLE_EP_DGRAM;
}

/*
 * True if @from, the sender, has closed: messages before @m may have been taken back under
 * rx->lock since, so that delivery of @m would leave a gap. An injected message counts as sent
 * when its doorbell returns, and datagrams have no order: neither is late.
 */
static inline bool treadle_msg_is_late(const struct treadle_msg *m, const struct treadle_ep *from)
{
	return unlikely(READ_ONCE(from->closed)) && !(m->flags & TREADLE_F_INJECT) &&
	       !treadle_msg_is_lossy(m);
}

/* recv_complete.c */
int treadle_cq_post(struct treadle_ep *ep, u32 source, struct treadle_cqe *cqe);
bool treadle_recv_notify(struct treadle_recv *recv, struct treadle_ep *ep,
			 const struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run);

#endif
