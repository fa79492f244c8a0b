/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: how a message gets its receive: what each message needs, inline (receive.c) */
#ifndef TREADLE_TAKE_H
#define TREADLE_TAKE_H

#include "match/receive.h"

/* Set up @recv from @d, a copy that user space cannot change. It accepts any source. */
static __always_inline void treadle_recv_set(struct treadle_recv *recv,
					     const struct treadle_desc *d)
{
	recv->context = d->context;
	recv->one.addr = d->addr;
	recv->one.len = d->len;
	recv->flags = d->flags;
	recv->iov_count = d->iov_count;
	recv->space = d->opcode == TREADLE_OP_TRECV;
	recv->kind = TREADLE_RECV_ONE;
	/* a multi-receive with a vector was refused */
	if (unlikely(d->flags & TREADLE_F_MULTI_RECV) && d->iov_count <= 1) {
		recv->kind = TREADLE_RECV_MULTI;
		recv->min = d->data;
		recv->parts = 0;
		recv->error = 0;
		recv->over = recv->end_reported = false;
	}
	recv->m.node.tag = d->tag;
	recv->m.node.src = TREADLE_SRC_ANY;
	recv->m.ignore = d->ignore;
	recv->m.node.seq = 0;
}

/*
 * The usual case of treadle_rx_take(): no message waits, and the first receive of the ring is for
 * @msg, without a mask, for any source. NULL: nothing was taken.
 */
static __always_inline struct treadle_recv *treadle_rx_take_first(struct treadle_rx *rx,
								  const struct treadle_msg *msg)
{
	struct treadle_desc d = {
		.opcode = msg->space == TREADLE_TAGGED ? TREADLE_OP_TRECV : TREADLE_OP_RECV,
		.iov_count = 1,
		.tag = msg->m.tag,
	};
	struct treadle_recv *recv = rx->free;
	struct treadle_ring *ring = &rx->ring;
	const struct treadle_desc *s;
	u32 prod;

	lockdep_assert_held(&rx->lock);
	if (msg->space > TREADLE_TAGGED || rx->match[msg->space].messages || rx->handed ||
	    !list_empty(&rx->feeding) || list_empty(&rx->eps) || !recv || ring->broken ||
	    !treadle_ring_prod(ring, &prod) || prod == ring->head)
		return NULL;
	/* each field is read once, and most are known then */
	s = &treadle_ring_slot(ring, ring->head)->desc;
	if (READ_ONCE(s->opcode) != d.opcode || READ_ONCE(s->iov_count) != 1 ||
	    READ_ONCE(s->reserved0) || READ_ONCE(s->peer) != TREADLE_ADDR_ANY ||
	    READ_ONCE(s->tag) != d.tag || READ_ONCE(s->ignore) || READ_ONCE(s->data))
		return NULL;
	d.flags = READ_ONCE(s->flags);
	d.context = READ_ONCE(s->context);
	d.addr = READ_ONCE(s->addr);
	d.len = READ_ONCE(s->len);
	if ((d.flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) || d.addr + d.len < d.addr)
		return NULL;
	rx->free = recv->next;
	ring->head++;
	recv->cmd = NULL;
	recv->ext = NULL;
	d.flags &= TREADLE_F_COMPLETION;
	treadle_recv_set(recv, &d);
	recv->m.node.seq = rx->seq++;
	return recv;
}

/**
 * treadle_rx_find - find a receive for a message: a posted one, else one in the ring
 * @rx:	the ring of its target
 * @msg:	the message; msg->recv becomes the receive, or NULL
 * @run:	of the caller; takes deliveries of other messages
 *
 * If older messages wait and DOORBELL is set, the receiver's doorbell matches them in order. A
 * sender that has begun to take receives would leave the rest to the owner's worker. That would run
 * beside the doorbell, and finish at another time. So nothing is taken then.
 *
 * Context: rx->lock held. Drops it while it takes receives.
 * Return: true if looking again is of no use: there is a receive, the receiver's doorbell will
 * find the message, or it is a collective one, for which no ring has receives.
 */
static __always_inline bool treadle_rx_find(struct treadle_rx *rx, struct treadle_msg *msg,
					    struct treadle_run *run)
{
	const struct treadle_match *match = &rx->match[msg->space];

	lockdep_assert_held(&rx->lock);
	msg->recv = treadle_match_posted(match) ? treadle_rx_match(rx, msg) : NULL;
	if (msg->recv || unlikely(msg->space == TREADLE_COLLECTIVE) ||
	    (match->messages && (rx->ring.kern->flags & TREADLE_RING_DOORBELL)))
		return true;
	msg->recv = treadle_rx_take_first(rx, msg) ?: treadle_rx_take(rx, msg, run);
	return msg->recv;
}

#endif
