// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the receive side: from the ring into the matcher and out of it
 *
 * Posting costs no system call: a receive stays in the ring until a sender, the owner's doorbell
 * or the owner's worker takes it, under rx->lock. A receive that was taken first looks for a
 * waiting message, and is posted in the matcher only if there is none.
 *
 * While messages wait, the ring asks for a doorbell (barrier C).
 */
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "match/take.h"
#include "match/traced.h"

#define TAKE_BATCH   64	   /* receives taken under one hold of the lock */
#define TAKE_LOOKS   4096u /* messages that receives with masks look at under one hold */
#define TAKE_BATCHES 64	   /* holds of the lock by a run that is not of the ring's context */

/*
 * Accept only the peer that a descriptor names: all contexts of a scalable endpoint are one source.
 */
static void recv_from(struct treadle_recv *recv, int route, u64 dest)
{
	recv->m.node.src = route ? TREADLE_SRC_NOBODY : treadle_dest_source(dest);
}

/*
 * Accept only @peer, as the first endpoint with an address vector resolves it now. Returns
 * -EDESTADDRREQ if there is no such endpoint, or @peer is not in the vector.
 */
static int recv_from_peer(struct treadle_rx *rx, struct treadle_recv *recv, u64 peer)
{
	struct treadle_own_ep *own =
		list_first_entry_or_null(&rx->named, struct treadle_own_ep, named_link);
	u64 dest = 0;
	int ret = own ? treadle_av_resolve(own->ep.av, peer, &dest) : -EDESTADDRREQ;

	lockdep_assert_held(&rx->lock);
	recv_from(recv, ret, dest);
	return ret == -EDESTADDRREQ ? ret : 0;
}

/**
 * treadle_cmd_recv - make the receive of a command
 * @cmd:	the command, on the heap
 * @error:	set to 0, or to the error with which the receive has to be completed
 *
 * The source is the one that was resolved when the command was submitted (cmd->route, cmd->dest).
 * The receive lies over the descriptor of @cmd, except for a command that repeats: that brings its
 * own.
 *
 * Context: any.
 * Return: the receive, which owns @cmd.
 */
struct treadle_recv *treadle_cmd_recv(struct treadle_cmd *cmd, int *error)
{
	struct treadle_recv *recv = cmd->recv ?: &cmd->as_recv;
	const struct treadle_desc d = cmd->d;

	if (!cmd->recv)
		cmd->traced = false; /* @recv lies over its number */
	cmd->recv = NULL;
	treadle_recv_set(recv, &d);
	recv->rx = cmd->ep->rx;
	recv->cmd = cmd;
	if (d.peer != TREADLE_ADDR_ANY)
		recv_from(recv, cmd->route, cmd->dest);
	*error = 0;
	if (d.flags & TREADLE_F_COLLECTIVE) {
		recv->space = TREADLE_COLLECTIVE;
		if (recv->m.node.src == TREADLE_SRC_NOBODY)
			*error = -EHOSTUNREACH;
	}
	return recv;
}

/* A receive for a slot of the ring, or NULL. */
static struct treadle_recv *recv_alloc(struct treadle_rx *rx)
{
	struct treadle_recv *recv = rx->free;

	lockdep_assert_held(&rx->lock);
	if (recv)
		rx->free = recv->next;
	return recv;
}

/* --- the matcher ------------------------------------------------------------------------- */

/**
 * treadle_rx_dequeue - take a message out of the matcher
 * @rx:	the ring of its target
 * @msg:	the message, queued or claimed
 * @recv:	the receive that it has matched, or NULL: it is withdrawn, or fails
 *
 * Context: rx->lock held. Takes the ep->lock of the sender.
 */
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg,
			const struct treadle_recv *recv)
{
	struct treadle_match *match = &rx->match[msg->claimed ? TREADLE_CLAIMED : msg->space];

	lockdep_assert_held(&rx->lock);
	msg->lent = recv && treadle_rx_lends(recv, msg);
	if (unlikely(msg->lent))
		treadle_match_lend_msg(match, &msg->m);
	else
		treadle_match_remove_msg(match, &msg->m);
	if (msg->cmd && msg->queued) /* a claimed message was unparked when it was claimed */
		msg->ops->unpark(msg);
	msg->queued = false;
	treadle_rx_quiet(rx);
}

/**
 * treadle_rx_post - put a receive into the matcher, at its place by sequence number
 * @rx:	the ring
 * @recv:	the receive; the matcher has room for its mask (treadle_match_room())
 *
 * Context: rx->lock held.
 */
void treadle_rx_post(struct treadle_rx *rx, struct treadle_recv *recv)
{
	lockdep_assert_held(&rx->lock);
	treadle_match_post(&rx->match[recv->space], &recv->m);
	if (likely(!recv->cmd)) {
		treadle_recv_slot(recv)->posted = true;
		return;
	}
	recv->cmd->recv = recv;
	recv->cmd->armed.threshold =
		recv->space == TREADLE_COLLECTIVE ? recv->m.node.src : recv->context;
	recv->cmd->armed.seq = recv->m.node.seq;
	treadle_armed_insert(treadle_recv_root(recv), &recv->cmd->armed);
}

/* @recv has matched @msg. The rest of a multi-receive is posted again, at its old place. */
static __always_inline void rx_meet(struct treadle_rx *rx, struct treadle_recv *recv,
				    struct treadle_msg *msg)
{
	lockdep_assert_held(&rx->lock);
	if (unlikely(recv->kind == TREADLE_RECV_MULTI) && treadle_multi_cut(recv, msg))
		treadle_rx_post(rx, recv);
}

/*
 * Waiting messages have to be compared with @recv: treadle_rx_take() does that. @next: rx->at is
 * the mark of @recv, so it comes first.
 */
static void rx_add_fed(struct treadle_rx *rx, struct treadle_recv *recv, bool next)
{
	lockdep_assert_held(&rx->lock);
	list_add(&recv->m.wild, next ? &rx->feeding : rx->feeding.prev);
	if (recv->cmd) { /* so that it is found when its endpoint closes */
		recv->cmd->recv = recv;
		list_add(&recv->cmd->wait, &treadle_own_ep(recv->cmd->ep)->feeding);
	}
}

/*
 * Find the message that waits for @recv. False: there is none, and the caller posts @recv. True:
 * @recv has matched, or *looks messages were compared without a match. Then @recv is the first of
 * rx->feeding, and treadle_rx_take() has to go on.
 */
static __always_inline bool rx_serve(struct treadle_rx *rx, struct treadle_recv *recv, u32 *looks,
				     struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[recv->space];
	struct treadle_match_msg *m;
	struct treadle_msg *msg;

	lockdep_assert_held(&rx->lock);
	if (likely(!match->messages && !treadle_match_marked(&rx->at)))
		return false;
	m = treadle_match_seek(match, &recv->m, &rx->at, looks);
	if (!m) {
		/* without a mask the search was by hash, and the mark belongs to another receive */
		if (!recv->m.ignore || !treadle_match_marked(&rx->at))
			return false;
		rx_add_fed(rx, recv, true);
		return true;
	}
	msg = container_of(m, struct treadle_msg, m);
	treadle_rx_dequeue(rx, msg, recv);
	msg->recv = recv;
	if (trace_treadle_match_enabled())
		treadle_trace_match(msg, true);
	/* the rest may match more messages: treadle_rx_take() goes on, and counts its steps */
	if (unlikely(recv->kind == TREADLE_RECV_MULTI) && treadle_multi_cut(recv, msg))
		rx_add_fed(rx, recv, true);
	msg->job.ctx = rx->obj.ctx;
	treadle_run_add(run, &msg->job);
	return true;
}

/*
 * A receive with a mask is compared with messages one by one. After @looks of them, the rest is
 * left to treadle_rx_take(). Until that is done, an arriving message may match a younger posted
 * receive, but none on rx->feeding.
 */
static void rx_place(struct treadle_rx *rx, struct treadle_recv *recv, u32 looks,
		     struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[recv->space];

	lockdep_assert_held(&rx->lock);
	if (recv->m.ignore &&
	    ((match->messages && !looks) || treadle_match_marked(&rx->at) ||
	     !list_empty(&rx->feeding) || !treadle_match_room(match, recv->m.ignore)))
		rx_add_fed(rx, recv, false);
	else if (!rx_serve(rx, recv, &looks, run))
		treadle_rx_post(rx, recv);
}

/**
 * treadle_rx_place - match a new receive with a waiting message, or post it
 * @rx:	the ring
 * @recv:	the receive of a command
 * @run:	takes the delivery of a message that has matched
 *
 * The caller calls treadle_rx_feed() afterwards.
 *
 * Context: rx->lock held.
 */
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run)
{
	lockdep_assert_held(&rx->lock);
	recv->m.node.seq = rx->seq++;
	rx_place(rx, recv, 0, run);
}

/**
 * treadle_rx_place_again - the same for a receive that was matched before, at its old place
 * @rx:	the ring
 * @recv:	the receive, with its sequence number
 * @run:	takes the delivery of a message that has matched
 *
 * The caller calls treadle_rx_feed() afterwards.
 *
 * Context: rx->lock held.
 */
void treadle_rx_place_again(struct treadle_rx *rx, struct treadle_recv *recv,
			    struct treadle_run *run)
{
	lockdep_assert_held(&rx->lock);
	rx_place(rx, recv, TAKE_LOOKS, run);
}

/* Take the first receive off rx->feeding. NULL if that is empty. */
static struct treadle_recv *rx_fed(struct treadle_rx *rx)
{
	struct treadle_recv *recv =
		list_first_entry_or_null(&rx->feeding, struct treadle_recv, m.wild);

	lockdep_assert_held(&rx->lock);
	if (recv)
		treadle_rx_unfeed(recv);
	return recv;
}

/* Post @recv, which no waiting message matches. -ENOSPC: too many receives with masks. */
static int rx_post(struct treadle_rx *rx, struct treadle_recv *recv)
{
	lockdep_assert_held(&rx->lock);
	if (unlikely(recv->m.ignore) &&
	    !treadle_match_room(&rx->match[recv->space], recv->m.ignore))
		return -ENOSPC;
	treadle_rx_post(rx, recv);
	return 0;
}

/* @recv has left the matcher: forget what is kept to find it there. */
static void rx_unpost(struct treadle_recv *recv)
{
	lockdep_assert_held(&recv->rx->lock);
	if (likely(!recv->cmd)) {
		treadle_recv_slot(recv)->posted = false;
		return;
	}
	if (unlikely(recv->space == TREADLE_COLLECTIVE))
		treadle_recv_unawait(recv);
	rb_erase_cached(&recv->cmd->armed.node, treadle_recv_root(recv));
	recv->cmd->recv = NULL;
}

/**
 * treadle_rx_withdraw - take a posted receive out of the matcher
 * @recv:	the receive
 *
 * Context: rx->lock held.
 */
void treadle_rx_withdraw(struct treadle_recv *recv)
{
	lockdep_assert_held(&recv->rx->lock);
	treadle_match_remove_recv(&recv->rx->match[recv->space], &recv->m);
	rx_unpost(recv);
}

/**
 * treadle_rx_match - take the posted receive for a message
 * @rx:	the ring of its target
 * @msg:	the message; msg->part is set if a multi-receive has matched
 *
 * Context: rx->lock held.
 * Return: the oldest receive that matches, or NULL.
 */
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg)
{
	struct treadle_match_recv *m;
	struct treadle_recv *recv;

	lockdep_assert_held(&rx->lock);
	m = treadle_match_arrive(&rx->match[msg->space], msg->m.tag, msg->m.src);
	if (!m)
		return NULL;
	recv = container_of(m, struct treadle_recv, m);
	rx_unpost(recv);
	rx_meet(rx, recv, msg);
	return recv;
}

/* --- the ring ----------------------------------------------------------------------------- */

/* Validate a descriptor that is not a plain receive: it has to be a multi-receive. */
static noinline int validate_multi(const struct treadle_desc *d)
{
	u64 end;

	if (d->opcode != TREADLE_OP_RECV || d->reserved0 ||
	    (d->flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) != TREADLE_F_MULTI_RECV ||
	    d->tag || d->ignore || d->iov_count != 1 || check_add_overflow(d->addr, d->len, &end))
		return -EINVAL;
	return 0;
}

/*
 * Validate the descriptor of a receive. The length is not limited: a buffer may be longer than any
 * message.
 */
static __always_inline int validate_recv(const struct treadle_desc *d,
					 const struct treadle_iov *iov)
{
	u64 end;

	if ((d->opcode != TREADLE_OP_RECV && d->opcode != TREADLE_OP_TRECV) || d->reserved0 ||
	    (d->flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) || d->data)
		return validate_multi(d);
	if ((d->opcode == TREADLE_OP_RECV && (d->tag || d->ignore)) ||
	    d->iov_count > TREADLE_MAX_IOV)
		return -EINVAL;
	if (d->iov_count == 0)
		return d->addr || d->len ? -EINVAL : 0;
	if (d->iov_count == 1) {
		if (check_add_overflow(d->addr, d->len, &end))
			return -EINVAL;
	} else if (d->addr || treadle_iov_validate(iov, d->iov_count, d->len)) {
		return -EINVAL;
	}
	return 0;
}

/* Does @recv match @msg, as far as tag and source are concerned? */
static bool suits(const struct treadle_recv *recv, const struct treadle_msg *msg)
{
	return recv->space == msg->space && treadle_match_suits(&recv->m, &msg->m);
}

/*
 * Take the receive at ring.head. *error: 0, or why its descriptor is bad. NULL: the ring has to be
 * broken: its indices claim more receives than there are slots, or half a receive with a vector.
 */
static __always_inline struct treadle_recv *take_one(struct treadle_rx *rx, u32 prod, int *error)
{
	struct treadle_ring *ring = &rx->ring;
	struct treadle_desc d TREADLE_UNSET;
	struct treadle_recv *recv, *second;
	struct treadle_rx_slot *ext = NULL;

	lockdep_assert_held(&rx->lock);
	treadle_ring_fetch_line(ring, ring->head, &d);
	recv = recv_alloc(rx);
	if (unlikely(!recv))
		return NULL;
	if (unlikely(d.iov_count > 1)) {
		second = prod - ring->head > 1 ? recv_alloc(rx) : NULL;
		if (!second)
			return NULL;
		ext = treadle_recv_slot(second);
		memcpy(ext->iov, treadle_ring_slot(ring, ++ring->head)->iov, sizeof(ext->iov));
		barrier();
	}
	ring->head++;
	recv->cmd = NULL;
	recv->ext = ext;
	*error = validate_recv(&d, ext ? ext->iov : NULL);
	d.flags &= TREADLE_F_COMPLETION | TREADLE_F_MULTI_RECV;
	treadle_recv_set(recv, &d);
	if (unlikely(d.peer != TREADLE_ADDR_ANY))
		*error = *error ?: recv_from_peer(rx, recv, d.peer);
	recv->m.node.seq = rx->seq++;
	return recv;
}

/* *prod: index up to which the ring is written (B). False: the ring is broken, maybe since now. */
static __always_inline bool ring_prod(struct treadle_ring *ring, u32 *prod)
{
	if (unlikely(ring->broken))
		return false;
	if (likely(treadle_ring_prod(ring, prod)))
		return true;
	treadle_ring_break(ring);
	return false;
}

/*
 * Must the run stop taking receives, and leave the rest to the owner's worker? A run of another
 * context takes a bounded number, and fewer if it is a guest that should give up its processor; a
 * killed task stops, too. Receives that were posted before a fired one keep their order: see
 * treadle_recv_is_long().
 */
static bool enough(const struct treadle_rx *rx, const struct treadle_run *run, int batches)
{
	return (!treadle_run_is_for(run, rx->obj.ctx) && batches >= TAKE_BATCHES) ||
	       (run->guest && need_resched()) || fatal_signal_pending(current);
}

/**
 * treadle_rx_take - take receives from the ring, match or post them
 * @rx:	the ring
 * @msg:	stop at the receive for this message, which matches none that is posted; NULL: take
 *		all
 * @run:	of the caller; takes the deliveries of waiting messages that match
 *
 * Goes on with rx->feeding first. `prod` is read once, so a process that goes on posting does not
 * keep the caller here. A broken ring has no receives, but rx->feeding may still have some that
 * came as commands. While rx->handed is set, a sender (with @msg) takes nothing.
 *
 * Context: rx->lock held. Drops it, and may sleep then, after a bounded number of receives taken
 * and of messages compared.
 * Return: the receive for @msg. NULL: none was there, or the rest was left to the worker, which
 * will find @msg among the waiting messages.
 */
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock)
{
	struct treadle_recv *recv, *found = NULL;
	struct treadle_ring *ring = &rx->ring;
	struct treadle_ep *ep;
	u32 prod, looks = TAKE_LOOKS;
	int error, n = 0, batches = 0;
	bool last;

	lockdep_assert_held(&rx->lock);
	if (unlikely(rx->handed && msg))
		return NULL;
	if (unlikely(!ring_prod(ring, &prod)))
		prod = ring->head;
	while ((s32)(prod - ring->head) > 0 || !list_empty(&rx->feeding)) {
		ep = treadle_rx_ep(rx);
		if (!ep)
			break;
		recv = rx_fed(rx);
		error = 0;
		if (likely(!recv))
			recv = take_one(rx, prod, &error);
		if (!recv) {
			treadle_ring_break(ring);
			prod = ring->head;
			continue;
		}
		if (likely(!error)) {
			if (!rx_serve(rx, recv, &looks, run)) {
				/* waiting messages are older than @msg, and none matches */
				if (msg && suits(recv, msg)) {
					rx_meet(rx, recv, msg);
					return recv;
				}
				error = rx_post(rx, recv);
			}
			if (likely(!error && looks) && ++n < TAKE_BATCH)
				continue;
		}
		n = 0;
		looks = TAKE_LOOKS;
		/* taking for another context is charged, so that its other jobs get a turn */
		if (!treadle_run_is_for(run, rx->obj.ctx))
			treadle_run_charge(run, TREADLE_CHARGE);
		if (unlikely(error && recv->cmd))
			ep = recv->cmd->ep;
		treadle_ep_get(ep);
		spin_unlock(&rx->lock);
		if (error)
			treadle_rx_notify(recv, ep, error, run);
		treadle_ep_put(ep);
		treadle_rx_grow(rx, TREADLE_PLAIN, run);
		treadle_rx_grow(rx, TREADLE_TAGGED, run);
		last = enough(rx, run, ++batches);
		if (!last)
			treadle_run_pause(run);
		spin_lock(&rx->lock);
		if (ring->broken)
			prod = ring->head;
		/* another run may have posted a matching receive while the lock was dropped */
		recv = msg ? treadle_rx_match(rx, msg) : NULL;
		if (recv) {
			found = recv;
			msg = NULL;
			prod = ring->head;
		} else if (last) {
			treadle_rx_hand_over(rx);
			break;
		}
	}
	return found;
}
