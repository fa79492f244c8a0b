// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: send, plain and tagged
 *
 * fi_msg(3), fi_tagged(3). A send finds its target, then a receive. If there is one, the bytes are
 * copied straight into it (deliver.c). If not, the message waits in the target's matcher (keep.c).
 */
#include "match/take.h"
#include "path/path.h"

/* Collective messages are tagged, and match only collective receives. */
static u8 space_of(const struct treadle_desc *d)
{
	return unlikely(d->flags & TREADLE_F_COLLECTIVE) ? TREADLE_COLLECTIVE :
							   treadle_is_tagged(d);
}

/**
 * treadle_send_validate - check a send
 * @cmd:	the command
 *
 * Context: any.
 * Return: 0, or an error of the submission.
 */
TREADLE_HOT int treadle_send_validate(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if ((!treadle_is_tagged(d) && d->tag) || d->ignore ||
	    (!(d->flags & (TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_FAILURE)) && d->data))
		return -EINVAL;
	if (unlikely(d->flags & TREADLE_F_COLLECTIVE)) {
		if (!treadle_is_tagged(d))
			return -EINVAL;
		if (!treadle_is_member(cmd->ep))
			return -EOPNOTSUPP;
	}
	if (cmd->ep->type == TREADLE_EP_DGRAM) {
		if (d->flags & TREADLE_F_DELIVERY_COMPLETE)
			return -EOPNOTSUPP; /* a datagram is not confirmed */
		if (d->len > TREADLE_MAX_DGRAM)
			return -EMSGSIZE;
	}
	return 0;
}

/* Send a message that comes on the way of @ops. Consumes @cmd. */
static __always_inline void send(struct treadle_cmd *cmd, const struct treadle_msg_ops *ops,
				 struct treadle_run *run)
{
	struct treadle_ep *from = cmd->ep, *to = treadle_begin(&cmd, run);
	struct treadle_msg msg TREADLE_UNSET;

	if (unlikely(!to))
		return;
	msg.ops = ops;
	msg.to = to;
	msg.cmd = cmd;
	msg.len = cmd->d.len;
	msg.done = 0;
	msg.data = cmd->d.data;
	msg.flags = cmd->d.flags;
	msg.charge = 0;
	msg.source = from->id.source;
	msg.space = space_of(&cmd->d);
	msg.queued = msg.heap = false;
	msg.payload = NULL;
	msg.m.tag = cmd->d.tag;
	msg.m.src = unlikely(from->type == TREADLE_EP_MSG) ? TREADLE_SRC_PEER : from->id.source;

	spin_lock(&to->rx->lock);
	treadle_rx_find(to->rx, &msg, run);
	spin_unlock(&to->rx->lock);
	if (likely(msg.recv)) {
		if (trace_treadle_match_enabled())
			treadle_trace_match(&msg, false);
		treadle_deliver(&msg, run);
	} else {
		treadle_msg_keep(&msg, run);
	}
	treadle_ep_put(to);
}

/**
 * treadle_send_issue - send a message
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep. Takes rx->lock of the target.
 */
TREADLE_HOT void treadle_send_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	send(cmd, &treadle_local_msg, run);
}

/**
 * treadle_proxy_send_issue - the same for a message from another node
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: as treadle_send_issue().
 */
void treadle_proxy_send_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	send(cmd, &treadle_proxy_msg, run);
}
