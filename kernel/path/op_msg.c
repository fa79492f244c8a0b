// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: send and receive, plain and tagged
 *
 * fi_msg(3), fi_tagged(3). A send finds its target, then a receive. If there is one, the bytes are
 * copied straight into it. If not, the message is kept in the target's matcher: a small one as a
 * copy, charged to the target; any other as a reference to the sender's command, which waits
 * there. Waiting by reference are large messages, those with DELIVERY_COMPLETE, those for which
 * the target's limit has no room, and those behind such a one. All wait in one queue, so messages
 * of one sender match in the order of sending.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mm/own.h"
#include "path/path.h"

#define LOOKS 16

static bool is_tagged(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_TSEND || d->opcode == TREADLE_OP_TRECV;
}

/* Collective messages are tagged, and match only collective receives. */
static u8 space_of(const struct treadle_desc *d)
{
	return unlikely(d->flags & TREADLE_F_COLLECTIVE) ? TREADLE_COLLECTIVE : is_tagged(d);
}

/* Members of collectives are whole endpoints, as they are named by their port. */
static bool is_member(const struct treadle_ep *ep)
{
	return ep->type == TREADLE_EP_RDM && !ep->role;
}

/* --- send --------------------------------------------------------------------------------- */

/**
 * treadle_route - resolve the peer of a command
 * @cmd:	the command; sets its route and port
 *
 * Context: any.
 * Return: 0, also if the completion will have the error (cmd->route); else an error of the
 * submission.
 */
TREADLE_HOT int treadle_route(struct treadle_cmd *cmd)
{
	if (unlikely(cmd->ep->type == TREADLE_EP_MSG)) {
		cmd->route = cmd->port = 0;
		return treadle_conn_may_send(cmd->ep, cmd->d.flags & TREADLE_F_COND);
	}
	if (!cmd->ep->av)
		return -EDESTADDRREQ;
	cmd->route = treadle_av_resolve(cmd->ep->av, cmd->d.peer, &cmd->port);
	return cmd->route == -EDESTADDRREQ ? cmd->route : 0; /* other errors: in the completion */
}

/**
 * treadle_send_prep - validate a send and resolve its peer
 * @cmd:	the command
 *
 * Context: any.
 * Return: 0, or an error of the submission.
 */
TREADLE_HOT int treadle_send_prep(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if ((!is_tagged(d) && d->tag) || d->ignore ||
	    (!(d->flags & TREADLE_F_REMOTE_CQ_DATA) && d->data))
		return -EINVAL;
	if (unlikely(d->flags & TREADLE_F_COLLECTIVE)) {
		if (!is_tagged(d))
			return -EINVAL;
		if (!is_member(cmd->ep))
			return -EOPNOTSUPP;
	}
	if (cmd->ep->type == TREADLE_EP_DGRAM) {
		if (d->flags & TREADLE_F_DELIVERY_COMPLETE)
			return -EOPNOTSUPP; /* a datagram is not confirmed */
		if (d->len > TREADLE_MAX_DGRAM)
			return -EMSGSIZE;
	}
	return treadle_route(cmd);
}

/* The target of a command, held, which admits the initiator; or an ERR_PTR(). */
static __always_inline struct treadle_ep *find_target(const struct treadle_cmd *cmd)
{
	struct treadle_ep *from = cmd->ep, *to;
	int ret;

	if (from->type == TREADLE_EP_MSG) {
		to = treadle_conn_peer(from);
		if (IS_ERR(to) || likely(to->rx) || treadle_op_remote(cmd->d.opcode))
			return to;
		treadle_ep_put(to);
		return ERR_PTR(-ECONNREFUSED);
	}
	if (cmd->route)
		return ERR_PTR(cmd->route);
	to = treadle_ep_find(from->obj.ctx->ports, cmd->port);
	if (!to)
		return ERR_PTR(-ECONNREFUSED);
	if (!smp_load_acquire(&to->enabled) || READ_ONCE(to->dead) || to->type != from->type ||
	    (!to->rx && !treadle_op_remote(cmd->d.opcode)))
		ret = -ECONNREFUSED;
	else if (!treadle_ep_admits(to, from))
		ret = -EACCES;
	else
		return to;
	treadle_ep_put(to);
	return ERR_PTR(ret);
}

/**
 * treadle_find_target - find the target of a command
 * @cmd:	the command, with its route
 *
 * Context: any.
 * Return: the endpoint, held, which admits the initiator; or an ERR_PTR() for the completion.
 */
TREADLE_HOT struct treadle_ep *treadle_find_target(const struct treadle_cmd *cmd)
{
	return find_target(cmd);
}

/*
 * True if older messages wait and DOORBELL is set: the receiver's doorbell matches them in order.
 * A sender that has begun to take receives would leave the rest to the owner's worker. That would
 * run beside the doorbell, and finish at another time.
 */
static bool is_rung_for(const struct treadle_rx *rx, const struct treadle_msg *msg)
{
	lockdep_assert_held(&rx->lock);
	return rx->match[msg->space].messages && (rx->ring.kern->flags & TREADLE_RING_DOORBELL);
}

/*
 * Match @msg, or keep it. It is on the stack at first, and allocated once it has to be kept.
 * Consumes msg->cmd.
 */
TREADLE_HOT static void msg_send(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_rx *rx = msg->to->rx;
	struct treadle_cmd *sent = NULL;
	bool ready = false;
	int ret, looks = 0;
	u8 space;

again:
	spin_lock(&rx->lock);
	for (;;) {
		msg->recv = treadle_match_posted(&rx->match[msg->space]) ?
				    treadle_rx_match(rx, msg) :
				    NULL;
		if (unlikely(msg->space == TREADLE_COLLECTIVE)) /* no ring has receives for these */
			break;
		if (!msg->recv && is_rung_for(rx, msg))
			break;
		if (!msg->recv) /* may drop the lock */
			msg->recv = treadle_rx_take(rx, msg, run);
		if (msg->recv || !ready)
			break;
		/*
		 * Once DOORBELL is set, later receives ring, and this look sees earlier ones (C).
		 * Another message may have set it, and its sender may not have seen the end of the
		 * ring yet: so look until the ring is empty, or the worker has it. After LOOKS the
		 * worker gets it, as a process may post without ringing.
		 */
		if (!(rx->ring.kern->flags & TREADLE_RING_DOORBELL))
			treadle_ring_want_doorbell(&rx->ring);
		else if (rx->handed || treadle_ring_empty(&rx->ring))
			break;
		if (++looks >= LOOKS)
			treadle_rx_hand_over(rx);
	}
	/*
	 * The sender has closed: take the message back if it has no receive, or would be out of
	 * order. The command stays with the message then, and treadle_msg_park() or
	 * deliver_parts() fails it here: it may be on the stack, so no worker may get it.
	 */
	if (sent && unlikely(READ_ONCE(sent->ep->closed)) &&
	    (!msg->recv || treadle_msg_is_late(msg, sent->ep)))
		sent = NULL;
	if (msg->recv) {
		if (sent) {
			/* copied already: the send completes, whatever becomes of the delivery */
			msg->cmd = NULL;
			msg->lent = treadle_rx_lends(msg->recv, msg);
			if (msg->lent) {
				treadle_match_keep(&rx->match[msg->space], &msg->m);
				treadle_match_lend_msg(&rx->match[msg->space], &msg->m);
			}
		}
		spin_unlock(&rx->lock);
		if (!ready) {
			/* matched before there was a copy: copy from the sender */
			msg->payload = NULL;
			msg->done = 0;
		}
		treadle_deliver(msg, run);
		if (sent)
			treadle_cmd_complete(sent, 0, run);
		return;
	}
	if (!ready) {
		spin_unlock(&rx->lock);
		msg = treadle_msg_keepable(msg, run);
		if (!msg)
			return;
		ready = true;
		if (msg->payload && !(msg->cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE))
			sent = msg->cmd;
		goto again;
	}
	if (sent)
		msg->cmd = NULL;
	space = msg->space;
	ret = treadle_msg_keep(rx, msg);
	spin_unlock(&rx->lock);
	if (!ret) { /* @msg may be freed already */
		treadle_rx_grow(rx, space, run);
		if (sent)
			treadle_cmd_complete(sent, 0, run);
		return;
	}
	treadle_cmd_complete(sent ?: msg->cmd, treadle_msg_is_lossy(msg) ? 0 : ret, run);
	treadle_msg_put(msg);
}

/**
 * treadle_send_issue - send a message
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep.
 */
TREADLE_HOT void treadle_send_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ep *from = cmd->ep, *to;
	struct treadle_msg msg TREADLE_UNSET;

	if (unlikely(READ_ONCE(from->dead))) { /* closed while it was armed */
		treadle_cmd_free(cmd);
		return;
	}
	cmd = treadle_flow_admit(cmd, run);
	if (!cmd)
		return;
	to = find_target(cmd);
	if (IS_ERR(to)) { /* a datagram is dropped: treadle_msg_is_lossy() */
		treadle_cmd_complete(cmd, from->type == TREADLE_EP_DGRAM ? 0 : PTR_ERR(to), run);
		return;
	}
	msg.to = to;
	msg.cmd = cmd;
	msg.recv = NULL;
	msg.len = cmd->d.len;
	msg.done = 0;
	msg.data = cmd->d.data;
	msg.flags = cmd->d.flags;
	msg.charge = 0;
	msg.port = from->port;
	msg.space = space_of(&cmd->d);
	msg.queued = msg.heap = false;
	msg.payload = NULL;
	msg.m.tag = cmd->d.tag;
	msg.m.src = unlikely(from->type == TREADLE_EP_MSG) ? TREADLE_SRC_PEER : from->port;
	msg_send(&msg, run);
	treadle_ep_put(to);
}

/* --- taking back --------------------------------------------------------------------------- */

/**
 * treadle_ep_withdraw - take back messages of an endpoint that wait at peers
 * @ep:	the sender
 * @context:	NULL, or take back only commands with this context
 * @error:	with which their commands complete; 0: they are freed without a completion
 * @max:	how many to take back at most
 * @count:	counts them
 * @run:	takes what the completions fire
 *
 * A command is in ep->parked exactly while its message is queued. Both change under the target's
 * rx->lock, which is taken before ep->lock. So the message is found and held under ep->lock, and
 * checked again under rx->lock.
 *
 * Context: May sleep. Takes ep->lock; rx->lock of the targets.
 */
void treadle_ep_withdraw(struct treadle_ep *ep, const u64 *context, int error, u64 max, u64 *count,
			 struct treadle_run *run)
{
	while (*count < max) {
		struct treadle_msg *msg = NULL;
		struct treadle_cmd *cmd;
		struct treadle_rx *rx;
		bool queued;

		spin_lock(&ep->lock);
		cmd = treadle_wait_find(&ep->parked, context);
		if (cmd) {
			msg = cmd->msg;
			kref_get(&msg->ref);
		}
		spin_unlock(&ep->lock);
		if (!msg)
			return;
		rx = msg->to->rx;
		spin_lock(&rx->lock);
		queued = msg->queued;
		if (queued)
			treadle_rx_dequeue(rx, msg, NULL);
		spin_unlock(&rx->lock);
		if (queued) {
			if (error)
				treadle_cmd_fail(msg->cmd, error, run);
			else
				treadle_cmd_free(msg->cmd);
			(*count)++;
			treadle_msg_put(msg); /* the reference of the queue */
		}
		treadle_msg_put(msg);
		cond_resched();
	}
}

/* --- receive ---------------------------------------------------------------------------------- */

/**
 * treadle_recv_prep - validate a receive of a transmit ring, and resolve its source
 * @cmd:	the command
 *
 * Context: May sleep.
 * Return: 0, or an error of the submission.
 */
int treadle_recv_prep(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if ((!is_tagged(d) && (d->tag || d->ignore)) || !cmd->ep->rx ||
	    (d->flags & TREADLE_F_MULTI_RECV ? d->iov_count != 1 : d->data) || treadle_peek_prep(d))
		return -EINVAL;
	if (d->flags & TREADLE_F_COLLECTIVE) {
		if (!is_member(cmd->ep))
			return -EOPNOTSUPP;
		if (d->peer == TREADLE_ADDR_ANY || d->ignore || d->flags & TREADLE_F_CLAIM ||
		    d->flags & TREADLE_F_PEEK)
			return -EINVAL;
	}
	if (d->peer != TREADLE_ADDR_ANY) {
		cmd->route = cmd->ep->av ? treadle_av_resolve(cmd->ep->av, d->peer, &cmd->port) :
					   -EDESTADDRREQ;
		if (cmd->route == -EDESTADDRREQ)
			return cmd->route;
	}
	if (!(d->flags & TREADLE_F_REPEAT))
		return 0;
	/*
	 * Allocated now, so that firing can't fail for want of memory; a command without REPEAT
	 * becomes its receive.
	 */
	cmd->recv = kzalloc(sizeof(*cmd->recv), TREADLE_GFP);
	return cmd->recv ? 0 : -ENOMEM;
}

/*
 * A collective receive of @ep was posted as @seq, and may have matched since. A closing endpoint
 * fails the receives that wait for it if it sees ->awaited (ep_die()). Either it sees that, or its
 * ->dead is seen here. Only @seq fails here. The source may admit other endpoints of the ring, and
 * other receives may have been posted after another endpoint got the port.
 */
static void await_source(struct treadle_ep *ep, u32 port, u64 seq, struct treadle_run *run)
{
	struct treadle_ep *from = treadle_ep_find(ep->obj.ctx->ports, port);
	int error = -ECONNREFUSED;

	if (from && treadle_ep_admits(from, ep) && treadle_ep_admits(ep, from)) {
		WRITE_ONCE(from->awaited, true);
		smp_mb(); /* pairs with ep_die() */
		error = READ_ONCE(from->dead) ? -ECONNRESET : 0;
	} else if (from) {
		error = -EACCES;
	}
	if (from)
		treadle_ep_put(from);
	if (error)
		treadle_rx_fail_awaiting(ep->rx, port, &seq, error, run);
}

/**
 * treadle_recv_issue - post a receive that came through a transmit ring, mostly an armed one
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cmd *heap = treadle_cmd_persist(cmd, TREADLE_GFP, run);
	struct treadle_ep *ep = treadle_ep_get(cmd->ep);
	struct treadle_rx *rx = ep->rx;
	struct treadle_recv *recv;
	bool dead, shut;
	u64 seq;
	u32 source;
	u8 space;
	int ret;

	if (!heap) {
		treadle_cmd_complete(cmd, -ENOMEM, run);
		goto out;
	}
	recv = treadle_cmd_recv(heap, &ret);
	space = recv->space;
	source = recv->m.node.src;
	if (ret) {
		treadle_recv_complete(recv, ep, NULL, ret, run);
		goto out;
	}
	if (recv->flags & (TREADLE_F_PEEK | TREADLE_F_CLAIM)) {
		treadle_peek_issue(recv, ep, run);
		goto out;
	}
	spin_lock(&rx->lock);
	if (space != TREADLE_COLLECTIVE)
		treadle_rx_take(rx, NULL, run); /* older receives match first */
	/* closing sets dead, then takes out what is posted under this lock */
	dead = READ_ONCE(ep->dead);
	seq = rx->seq; /* the number that @recv gets */
	if (!dead)
		treadle_rx_place(rx, recv, run);
	treadle_rx_feed(rx, run);
	shut = treadle_rx_shut(rx, run);
	spin_unlock(&rx->lock);
	if (dead)
		treadle_recv_free(recv);
	else
		treadle_rx_grow(rx, space, run);
	if (space == TREADLE_COLLECTIVE && !dead)
		await_source(ep, source, seq, run);
	if (shut)
		treadle_rx_flush(rx, ep, rx->ring.entries, run);
out:
	treadle_ep_put(ep);
}
