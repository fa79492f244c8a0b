// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the life of allocated messages: references, and giving back to the matcher
 */
#include <linux/slab.h>

#include "match/receive.h"

static void msg_release(struct kref *ref)
{
	struct treadle_msg *msg = container_of(ref, struct treadle_msg, ref);

	if (msg->charge)
		treadle_rx_uncharge(msg->to->rx, msg->charge);
	treadle_ep_put(msg->to);
	kvfree(msg);
}

/**
 * treadle_rx_lends - does a message keep its place in the matcher while it is delivered?
 * @recv:	the receive that @msg has matched
 * @msg:	the message
 *
 * If @recv belongs to another endpoint than @msg, that may close during the copy, and @msg has to
 * be given back. There is no other copy of @msg once its sender's command is completed.
 *
 * Context: rx->lock held.
 * Return: true if the place has to be kept (treadle_msg.lent).
 */
bool treadle_rx_lends(const struct treadle_recv *recv, const struct treadle_msg *msg)
{
	lockdep_assert_held(&recv->rx->lock);
	return !msg->cmd && recv->cmd && recv->cmd->ep != msg->to;
}

/**
 * treadle_msg_put - drop a reference to a message
 * @msg:	an allocated message
 *
 * Context: No spinlock held: the last reference takes rx->lock to refund the charge.
 */
void treadle_msg_put(struct treadle_msg *msg)
{
	kref_put(&msg->ref, msg_release);
}

/**
 * treadle_msg_give_back - offer a lent or claimed message to the next receive again
 * @rx:	the ring of its target
 * @msg:	the message; it is in no matcher, but has kept its place
 * @run:	takes the delivery if a posted receive matches at once
 *
 * So no message is lost after its send has completed, when the endpoint that has armed the receive
 * closes.
 *
 * Context: rx->lock held.
 */
void treadle_msg_give_back(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
{
	lockdep_assert_held(&rx->lock);
	msg->done = 0;
	msg->recv = msg->claimed ? NULL : treadle_rx_match(rx, msg); /* posted since it left */
	msg->lent = msg->recv && treadle_rx_lends(msg->recv, msg);
	if (msg->recv) {
		if (!msg->lent)
			treadle_match_unmark(&msg->m.at);
		msg->job.ctx = rx->obj.ctx;
		treadle_run_add(run, &msg->job);
		return;
	}
	treadle_match_return_msg(&rx->match[msg->claimed ? TREADLE_CLAIMED : msg->space], &msg->m);
	if (msg->claimed)
		return;
	msg->queued = true;
	rx->returned++; /* a search that has passed its place begins anew */
	treadle_match_unmark(&rx->at);
	/* a matching receive may be in the ring, or be posted later (C) */
	treadle_ring_want_doorbell(&rx->ring);
	treadle_rx_hand_over(rx);
}
