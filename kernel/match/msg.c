// SPDX-License-Identifier: GPL-2.0
/* treadle: messages that are kept: held, parked with their sender, given back to the matcher */
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

void treadle_msg_put(struct treadle_msg *msg)
{
	kref_put(&msg->ref, msg_release);
}

/* To be found by fi_cancel, and when its endpoint closes; under rx->lock. */
int treadle_msg_park(struct treadle_msg *msg)
{
	struct treadle_ep *from = msg->cmd->ep;
	int ret = 0;

	msg->cmd->msg = msg; /* before it can be found */
	spin_lock(&from->lock);
	if (from->dead || from->severed)
		ret = treadle_ep_error(from);
	else
		treadle_wait_add(&from->parked, msg->cmd);
	spin_unlock(&from->lock);
	return ret;
}

/*
 * @msg, whose place was kept, is there for the next receive. Under rx->lock. So it is if the endpoint is closed that has
 * armed the receive, and the sender was told that the message is sent.
 */
void treadle_msg_give_back(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
{
	msg->done = 0;
	msg->recv = msg->claimed ? NULL : treadle_rx_match(rx, msg); /* one that was posted since */
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
	rx->returned++; /* who has looked beyond its place begins anew */
	treadle_match_unmark(&rx->at);
	/* or one that is in the ring, or to come (C) */
	treadle_ring_want_doorbell(&rx->ring);
	treadle_rx_hand_over(rx);
}
