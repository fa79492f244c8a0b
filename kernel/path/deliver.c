// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: from the match to the completions
 *
 * A message and its receive belong to nobody else now. Small ones are copied by
 * whoever matched them; large ones, and those whose pages are slow, by the worker of
 * the context whose memory it is.
 */
#include <linux/slab.h>

#include "mm/own.h"
#include "path/path.h"

/* Off the stack of the doorbell. NULL: no memory; the command of @m may have been allocated. */
static struct treadle_msg *msg_persist(struct treadle_msg *m, struct treadle_run *run)
{
	struct treadle_msg *msg;
	struct treadle_cmd *cmd;

	if (m->heap)
		return m;
	msg = treadle_cmd_alloc(m->cmd, sizeof(*msg), TREADLE_GFP, run);
	cmd = msg ? treadle_cmd_persist(m->cmd, TREADLE_GFP, run) : NULL;
	if (cmd)
		m->cmd = cmd;
	if (!cmd || !treadle_flow_track(cmd, TREADLE_FENCED, run)) {
		kfree(msg);
		return NULL;
	}
	*msg = *m;
	kref_init(&msg->ref);
	msg->heap = true;
	msg->job.fn = treadle_deliver_job;
	treadle_ep_get(msg->to);
	return msg;
}

void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run)
{
	treadle_deliver(container_of(job, struct treadle_msg, job), run);
}

/* Whose end takes the receive's buffer away: who has armed it, perhaps another endpoint of the same ring. */
static __always_inline const struct treadle_ep *goes_with(const struct treadle_msg *msg)
{
	const struct treadle_recv *recv = msg->recv;
	const struct treadle_cmd *cmd =
		unlikely(recv->kind == TREADLE_RECV_PART) ? recv->multi->cmd : recv->cmd;

	return unlikely(cmd) ? cmd->ep : msg->to;
}

/* The receive has not been used: the message was not to be had, or an endpoint is closed. */
static noinline void put_back(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_recv *recv = msg->recv;
	struct treadle_ep *ep = msg->to;

	if (recv->kind == TREADLE_RECV_PART) {
		treadle_multi_put_back(msg, run);
	} else if (recv->flags & (TREADLE_F_CLAIM | TREADLE_F_COLLECTIVE)) {
		/* the command, and what it holds, is gone as soon as its completion is read */
		struct treadle_ep *own = treadle_ep_get(recv->cmd->ep);

		treadle_recv_complete(recv, own, msg, -EIO,
				      run); /* for this message, and no other */
		treadle_ep_put(own);
	} else {
		treadle_rx_put_back(ep->rx, recv, run);
	}
}

/* What the sender hears of the receiver's troubles: of a datagram, nothing. */
static int told(const struct treadle_msg *msg, int error)
{
	return msg->to->type == TREADLE_EP_DGRAM ? 0 : error;
}

/* A message whose place was kept needs it no more, or (true) is not done with. */
static noinline bool settle(struct treadle_msg *msg, bool received, struct treadle_run *run)
{
	struct treadle_rx *rx = msg->to->rx;
	bool keep;

	spin_lock(&rx->lock);
	/* closing takes this lock after it has set dead, and drops what waits */
	keep = !received && !READ_ONCE(msg->to->dead);
	if (keep)
		treadle_msg_give_back(rx, msg, run);
	else
		treadle_match_unmark(&msg->m.at);
	spin_unlock(&rx->lock);
	return keep;
}

/* Both sides are told; of what nobody has received because an endpoint closed meanwhile, the sender. */
static __always_inline void finish(struct treadle_msg *msg, int src_error, int dst_error,
				   struct treadle_run *run)
{
	struct treadle_cmd *cmd = msg->cmd;
	bool received = false;

	if (!dst_error && msg->len > msg->recv->one.len)
		dst_error = -TREADLE_ETRUNC;
	if (unlikely(msg->flags & TREADLE_F_FAILURE))
		dst_error = -(int)msg->data;
	/* the receive stays with its context, if that is not closed with the endpoint, whose completions are dropped */
	if (src_error == -EFAULT || src_error == -ENOMEM || unlikely(READ_ONCE(msg->to->dead)) ||
	    unlikely(READ_ONCE(goes_with(msg)->dead)))
		put_back(msg, run);
	else if (unlikely(msg->recv->kind == TREADLE_RECV_PART))
		received = treadle_multi_finish(msg, dst_error, run);
	else if (likely(treadle_recv_tell(msg->recv, msg->to, msg, dst_error, run)))
		received = true;
	else
		put_back(msg, run); /* it has closed just now */
	if (unlikely(!received) && !src_error)
		src_error = told(msg, -ECONNRESET);
	if (cmd)
		treadle_cmd_complete(cmd, src_error, run);
	else if (unlikely(msg->lent) && settle(msg, received, run))
		return;
	if (msg->heap)
		treadle_msg_put(msg);
}

/* Let the worker of @ctx go on. */
static void defer(struct treadle_msg *m, struct treadle_ctx *ctx, struct treadle_run *run)
{
	struct treadle_msg *msg;

	/* injected, and about to leave its doorbell: the sender's buffer is free then */
	if (!m->heap && (m->flags & TREADLE_F_INJECT) && !m->cmd->inject) {
		int ret = treadle_take_inject(m->cmd, run);

		if (ret) {
			finish(m, ret, -EIO, run);
			return;
		}
	}
	msg = msg_persist(m, run);
	if (!msg) {
		finish(m, -ENOMEM, -EIO, run);
		return;
	}
	/* a sender who was told already has gone on; others are tracked: this needs no memory */
	if (msg->recv->kind == TREADLE_RECV_PART && msg->cmd)
		treadle_flow_track(msg->cmd, TREADLE_AWAITED, run);
	msg->job.ctx = ctx;
	treadle_queue_job(&msg->job);
}

/* There is no memory for the part of a multi-receive that @msg was to get. */
static noinline void no_part(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_cmd *cmd = msg->cmd;

	/* its sender may have been told already: the receiver's worker tries until there is, or it is closed */
	if (msg->heap && !READ_ONCE(msg->to->dead)) {
		defer(msg, msg->to->obj.ctx, run);
		return;
	}
	treadle_multi_uncut(msg, msg->recv, run);
	if (cmd)
		treadle_cmd_complete(cmd, told(msg, -ENOMEM), run);
	else if (msg->lent && settle(msg, false, run))
		return;
	if (msg->heap)
		treadle_msg_put(msg);
}

/* The copy stopped short on @side: somebody else goes on, or both sides hear why not. */
static noinline void stopped(struct treadle_msg *msg, int ret, enum treadle_side side,
			     struct treadle_run *run)
{
	struct treadle_ctx *to = msg->to->obj.ctx;

	switch (ret) {
	case -EAGAIN:
		defer(msg, side == TREADLE_SRC ? msg->cmd->ep->obj.ctx : to, run);
		break;
	case -EINPROGRESS:
		defer(msg, to, run);
		break;
	case -ESHUTDOWN:
		if (side == TREADLE_SRC)
			finish(msg, treadle_ep_error(msg->cmd->ep), -ECONNRESET, run);
		else
			finish(msg, told(msg, -ECONNRESET), -ECANCELED, run);
		break;
	default:
		if (side == TREADLE_SRC)
			finish(msg, ret, 0, run);
		else
			finish(msg, told(msg, -EIO), ret, run);
	}
}

/* Pieces, several pages, pages that are not known, and what has begun already. */
static noinline void deliver_parts(struct treadle_msg *msg, u64 len, struct treadle_run *run)
{
	struct treadle_ctx *to = msg->to->obj.ctx;
	enum treadle_side side = TREADLE_NONE;
	struct treadle_span src, dst;
	int ret = 0;

	/* As a copy from it says, where there is none. Nothing is left to a worker then: its command may be on the stack. */
	if (msg->cmd && (msg->payload || !len) && treadle_msg_is_late(msg, msg->cmd->ep)) {
		stopped(msg, -ESHUTDOWN, TREADLE_SRC, run);
		return;
	}
	if (len - msg->done > TREADLE_INLINE && !run->worker) {
		defer(msg, to, run);
		return;
	}
	if (len) {
		if (msg->payload)
			treadle_span_kernel(&src, msg->payload, msg->done);
		else
			treadle_cmd_span(msg->cmd, &src, msg->done);
		/* not severed: what was sent before can still be received */
		treadle_span_user(&dst, to, &goes_with(msg)->dead, treadle_recv_iov(msg->recv),
				  msg->recv->iov_count, msg->done);
		ret = treadle_copy(&dst, &src, &msg->done, len, run, &side);
	}
	if (!ret)
		finish(msg, 0, 0, run);
	else
		stopped(msg, ret, side, run);
}

static __always_inline bool copy_at_once(const struct treadle_msg *msg, u64 len,
					 const struct treadle_run *run)
{
	const struct treadle_ep *from = msg->cmd->ep, *to = msg->to;
	u64 src = msg->cmd->d.addr, dst = msg->recv->one.addr;

	return likely(from->obj.ctx == run->own && own_word(len) &&
		      !treadle_msg_is_late(msg, from)) ?
		       treadle_copy_own(to, dst, src, len, true, NULL) :
		       treadle_copy_small(to, dst, from, src, len, NULL);
}

/*
 * treadle_deliver - copy a matched message, complete both sides
 * @msg: with its receive; on the stack or allocated; consumed
 */
TREADLE_HOT void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run)
{
	const struct treadle_cmd *cmd = msg->cmd;
	const struct treadle_recv *recv;
	u64 len;

	if (unlikely(msg->recv->kind == TREADLE_RECV_MULTI)) {
		struct treadle_recv *part = treadle_multi_part(msg, run);

		if (unlikely(!part)) {
			no_part(msg, run);
			return;
		}
		msg->recv = part;
	}
	recv = msg->recv;
	len = min(msg->len, recv->one.len);
	if (likely(!msg->payload && !msg->done && !cmd->vec && !cmd->inject &&
		   recv->iov_count == 1 && goes_with(msg) == msg->to &&
		   copy_at_once(msg, len, run)))
		finish(msg, 0, 0, run);
	else
		deliver_parts(msg, len, run);
}
