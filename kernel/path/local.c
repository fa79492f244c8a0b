// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the way to peers on this machine
 *
 * The thread that issues a command finds the target's endpoint, and works on the target's matcher
 * and memory itself.
 */
#include <linux/slab.h>

#include "path/path.h"

/* --- messages ----------------------------------------------------------------------------- */

/* The functions of treadle_local_msg: struct treadle_msg_ops. Other ways use some, too. */
int treadle_local_fetch(struct treadle_msg *msg, struct treadle_span *to, u64 len,
			struct treadle_run *run, enum treadle_side *side)
{
	struct treadle_span from;

	if (msg->payload)
		treadle_span_kernel(&from, msg->payload, msg->done);
	else
		treadle_cmd_span(msg->cmd, &from, msg->done);
	return treadle_copy(to, &from, &msg->done, len, run, side);
}

/**
 * treadle_local_withdraw - take back a command, as its message waits for a receive
 * @cmd:	the command
 *
 * A command is in ep->parked exactly while its message is queued. Both change under the target's
 * rx->lock, which is taken before ep->lock. So the message is held under ep->lock, and looked at
 * under rx->lock.
 *
 * Context: ep->lock held; drops it meanwhile. Takes rx->lock of the target.
 * Return: TREADLE_OURS or TREADLE_NOT_HERE.
 */
enum treadle_withdrawn treadle_local_withdraw(struct treadle_cmd *cmd) __must_hold(&cmd->ep->lock)
{
	struct treadle_ep *ep = cmd->ep; /* held by the caller, unlike @cmd */
	struct treadle_msg *msg = cmd->msg;
	struct treadle_rx *rx = msg->to->rx;
	bool queued;

	lockdep_assert_held(&ep->lock);
	kref_get(&msg->ref);
	spin_unlock(&ep->lock);
	spin_lock(&rx->lock);
	queued = msg->queued;
	if (queued)
		treadle_rx_dequeue(rx, msg, NULL);
	spin_unlock(&rx->lock);
	if (queued)
		treadle_msg_put(msg); /* the reference of the queue */
	treadle_msg_put(msg);
	spin_lock(&ep->lock);
	return queued ? TREADLE_OURS : TREADLE_NOT_HERE;
}

/* Note at @from that the message of @cmd waits. */
static void parked(struct treadle_ep *from, struct treadle_cmd *cmd)
{
	lockdep_assert_held(&from->lock);
	treadle_wait_add(&from->parked, cmd);
	WRITE_ONCE(from->nr_parked, from->nr_parked + 1);
	if (from->nr_parked > from->most_parked)
		WRITE_ONCE(from->most_parked, from->nr_parked);
	treadle_stat_add(&from->obj.stats, TREADLE_STAT_PARKED, 1);
}

/* Closing the sender's endpoint takes the message back: see treadle_ep_withdraw(). */
int treadle_local_park(struct treadle_msg *msg)
{
	struct treadle_ep *from = msg->cmd->ep;
	int ret = 0;

	lockdep_assert_held(&msg->to->rx->lock);
	msg->cmd->msg = msg; /* before the command can be found */
	spin_lock(&from->lock);
	if (from->dead || from->severed)
		ret = treadle_ep_error(from);
	else
		parked(from, msg->cmd);
	spin_unlock(&from->lock);
	return ret;
}

void treadle_local_unpark(struct treadle_msg *msg)
{
	struct treadle_ep *from = msg->cmd->ep;

	lockdep_assert_held(&msg->to->rx->lock);
	spin_lock(&from->lock);
	rb_erase(&msg->cmd->by_context, &from->parked);
	WRITE_ONCE(from->nr_parked, from->nr_parked - 1);
	spin_unlock(&from->lock);
}

void treadle_local_complete(struct treadle_msg *msg, int error, struct treadle_run *run)
{
	if (!error)
		treadle_cmd_count(msg->cmd);
	treadle_cmd_complete(msg->cmd, error, run);
}

const struct treadle_msg_ops treadle_local_msg = {
	.fetch = treadle_local_fetch,
	.complete = treadle_local_complete,
	.park = treadle_local_park,
	.unpark = treadle_local_unpark,
};

const struct treadle_path_ops treadle_local_path = {
	.issue = {
		[TREADLE_OP_NOP] = treadle_nop_issue,
		[TREADLE_OP_SEND ... TREADLE_OP_TSEND] = treadle_send_issue,
		[TREADLE_OP_RECV ... TREADLE_OP_TRECV] = treadle_recv_issue,
		[TREADLE_OP_READ ... TREADLE_OP_WRITE] = treadle_rma_issue,
		[TREADLE_OP_ATOMIC ... TREADLE_OP_COMPARE] = treadle_atomic_issue,
		[TREADLE_OP_CNTR_SET ... TREADLE_OP_CNTR_ADD] = treadle_cntr_issue,
	},
	.withdraw = treadle_local_withdraw,
};
