// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: from the match to the completions
 *
 * A message that has matched, and its receive, belong to the delivery alone. Small messages are
 * copied by the run that matched them. Large ones, and those with missing pages, are copied by a
 * worker of the sender or the receiver.
 */
#include <linux/slab.h>

#include "exec/complete.h"
#include "match/recv_complete.h"
#include "mm/own.h"
#include "path/path.h"

/**
 * treadle_deliver_job - treadle_deliver() as a job
 * @job:	of the message
 * @run:	of the caller
 *
 * Context: May sleep.
 */
void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run)
{
	treadle_deliver(container_of(job, struct treadle_msg, job), run);
}

/*
 * The endpoint that takes the receive's buffer away when it closes: the one that has armed it,
 * maybe another one of the ring.
 */
static __always_inline const struct treadle_ep *buffer_owner(const struct treadle_msg *msg)
{
	const struct treadle_recv *recv = msg->recv;
	const struct treadle_cmd *cmd =
		unlikely(recv->kind == TREADLE_RECV_PART) ? recv->multi->cmd : recv->cmd;

	return unlikely(cmd) ? cmd->ep : msg->to;
}

/**
 * treadle_msg_span - where the bytes of a matched message go
 * @msg:	the message; its first @done bytes are there already
 * @to:		set to the rest
 *
 * Context: any.
 */
void treadle_msg_span(const struct treadle_msg *msg, struct treadle_span *to)
{
	/*
	 * ->dead and not ->closed: what was sent before the connection ended can still be
	 * received.
	 */
	treadle_span_user(to, msg->to->obj.ctx, &buffer_owner(msg)->dead,
			  treadle_recv_iov(msg->recv), msg->recv->iov_count, msg->done);
	to->msg = msg->cmd ? treadle_cmd_traced(msg->cmd) : msg->from.id;
}

/*
 * The message was not received, as it could not be read or an endpoint is closed: put the receive
 * back.
 */
static noinline void put_back(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_recv *recv = msg->recv;
	struct treadle_ep *ep = msg->to;

	if (recv->kind == TREADLE_RECV_PART) {
		treadle_multi_put_back(msg, run);
	} else if (recv->flags & (TREADLE_F_CLAIM | TREADLE_F_COLLECTIVE)) {
		/* the command and its references are gone once its completion is read */
		struct treadle_ep *own = treadle_ep_get(recv->cmd->ep);

		/* with an error for this message only */
		treadle_recv_complete(recv, own, msg, -EIO, run);
		treadle_ep_put(own);
	} else {
		treadle_rx_put_back(ep->rx, recv, run);
	}
}

/* The error that the sender gets for an error of the receiver: none for a datagram. */
static int sender_error(const struct treadle_msg *msg, int error)
{
	return msg->to->type == TREADLE_EP_DGRAM ? 0 : error;
}

/*
 * A message was lent, and its delivery has ended. Not @received: give it back to the matcher, and
 * return true. Else its place is released.
 */
static noinline bool return_lent(struct treadle_msg *msg, bool received, struct treadle_run *run)
{
	struct treadle_rx *rx = msg->to->rx;
	bool keep;

	spin_lock(&rx->lock);
	/* closing sets dead, then takes this lock and fails the waiting messages */
	keep = !received && !READ_ONCE(msg->to->dead);
	if (keep)
		treadle_msg_give_back(rx, msg, run);
	else
		treadle_match_unmark(&msg->m.at);
	spin_unlock(&rx->lock);
	return keep;
}

/* Count @n messages of this kind and length at @ep. @in: it receives */
static __always_inline void msg_count(const struct treadle_ep *ep, const struct treadle_msg *msg,
				      bool in, s64 n)
{
	u64 __percpu *words = ep->obj.stats.n + msg->space;

	if (in) {
		this_cpu_add(words[TREADLE_STAT_IN], n);
		this_cpu_add(words[TREADLE_STAT_IN_BYTES], n * msg->len);
	} else {
		this_cpu_add(words[TREADLE_STAT_SENT], n);
		this_cpu_add(words[TREADLE_STAT_SENT_BYTES], n * msg->len);
	}
}

/* End the sender's command. */
static __always_inline void complete_sender(struct treadle_msg *msg, int error,
					    struct treadle_run *run)
{
	if (likely(msg->ops == &treadle_local_msg)) { /* spares an indirect call */
		if (likely(!error)) {
			msg_count(msg->cmd->ep, msg, false, 1);
			treadle_cmd_succeed(msg->cmd, msg->cmd->ep->cntr_send, run);
		} else {
			treadle_cmd_complete(msg->cmd, error, run);
		}
	} else {
		msg->ops->complete(msg, error, run);
	}
}

/*
 * Report the receive in the usual case: the message is whole, and its receive is one of the ring.
 * False: nothing was done. A closed endpoint is noticed, as it reports nothing.
 */
static __always_inline bool notify_whole(struct treadle_msg *msg, struct treadle_run *run)
{
	if (unlikely(msg->len > msg->recv->one.len || msg->flags & TREADLE_F_FAILURE ||
		     msg->recv->kind != TREADLE_RECV_ONE))
		return false;
	/* before the completion, so that a process that has seen that finds it counted */
	msg_count(msg->to, msg, true, 1);
	if (likely(treadle_recv_succeed(msg->recv, msg->to, msg, run)))
		return true;
	msg_count(msg->to, msg, true, -1);
	return false;
}

/* Report the receive. False: it was put back, as an endpoint has closed just now. */
static noinline bool notify(struct treadle_msg *msg, int src_error, int error,
			    struct treadle_run *run)
{
	if (!error && msg->len > msg->recv->one.len)
		error = -TREADLE_ETRUNC;
	if (unlikely(msg->flags & TREADLE_F_FAILURE))
		error = -(int)msg->data;
	/*
	 * If the target has closed, its completions are dropped, but a receive of the ring stays
	 * for the other endpoints: put it back. A receive of a command goes with the endpoint that
	 * has armed it.
	 */
	if (src_error == -EFAULT || src_error == -ENOMEM || unlikely(READ_ONCE(msg->to->dead)) ||
	    unlikely(READ_ONCE(buffer_owner(msg)->dead))) {
		put_back(msg, run);
		return false;
	}
	if (!error)
		msg_count(msg->to, msg, true, 1);
	if (msg->recv->kind == TREADLE_RECV_PART) {
		if (treadle_multi_finish(msg, error, run))
			return true;
	} else {
		if (likely(treadle_recv_notify(msg->recv, msg->to, msg, error, run)))
			return true;
		put_back(msg, run);
	}
	if (!error)
		msg_count(msg->to, msg, true, -1);
	return false;
}

/*
 * Complete both sides. If an endpoint has closed meanwhile, so that nothing is received, only the
 * sender is notified.
 */
static __always_inline void finish(struct treadle_msg *msg, int src_error, int dst_error,
				   struct treadle_run *run)
{
	struct treadle_cmd *cmd = msg->cmd;
	bool received = (likely(!src_error && !dst_error) && notify_whole(msg, run)) ||
			notify(msg, src_error, dst_error, run);

	if (unlikely(!received) && !src_error)
		src_error = sender_error(msg, -ECONNRESET);
	if (cmd)
		complete_sender(msg, src_error, run);
	else if (unlikely(msg->lent) && return_lent(msg, received, run))
		return;
	if (msg->heap)
		treadle_msg_put(msg);
}

/* Let the worker of @ctx go on. Returns an error if there is no memory for that. */
static int defer(struct treadle_msg *m, struct treadle_ctx *ctx, struct treadle_run *run)
{
	/* a completed send holds up nothing, and has no command */
	enum treadle_track how =
		m->recv->kind == TREADLE_RECV_PART ? TREADLE_AWAITED : TREADLE_FENCED;
	struct treadle_msg *msg = m;

	if (!m->heap) {
		msg = treadle_cmd_carry(&m->cmd, m, sizeof(*m), how, run);
		if (IS_ERR(msg))
			return PTR_ERR(msg);
		kref_init(&msg->ref);
		msg->heap = true;
		msg->job.fn = treadle_deliver_job;
		treadle_ep_get(msg->to);
	} else if (msg->cmd) {
		treadle_cmd_leave(&msg->cmd, how, run); /* no error: it is tracked already */
	}
	msg->job.ctx = ctx;
	treadle_queue_job(&msg->job);
	return 0;
}

/*
 * What a delivery has come to: @verdict says which worker goes on, or TREADLE_KEPT: the message
 * waits for its bytes, or TREADLE_GO_ON: both sides complete, with these errors.
 */
struct outcome {
	int verdict, src, dst;
};

static noinline void conclude(struct treadle_msg *msg, struct outcome o, struct treadle_run *run)
{
	int ret;

	if (o.verdict == TREADLE_GO_ON) {
		if (run->worker && !o.src && !o.dst)
			treadle_stat_add(&msg->to->obj.stats, TREADLE_STAT_WORKER, 1);
		finish(msg, o.src, o.dst, run);
		return;
	}
	if (o.verdict == TREADLE_KEPT)
		return;
	ret = defer(msg, o.verdict == TREADLE_DEFER_HERE ? msg->cmd->ep->obj.ctx : msg->to->obj.ctx,
		    run);
	if (ret)
		finish(msg, ret, -EIO, run);
}

/* There is no memory for the part of a multi-receive that @msg should get. */
static noinline void no_part(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_cmd *cmd = msg->cmd;

	/*
	 * The send may have completed: the receiver's worker tries again until it succeeds or the
	 * target closes.
	 */
	if (msg->heap && !READ_ONCE(msg->to->dead)) {
		defer(msg, msg->to->obj.ctx, run); /* no error: it is allocated */
		return;
	}
	treadle_multi_uncut(msg, msg->recv, run);
	if (cmd)
		complete_sender(msg, sender_error(msg, -ENOMEM), run);
	else if (msg->lent && return_lent(msg, false, run))
		return;
	if (msg->heap)
		treadle_msg_put(msg);
}

/* The copy has stopped on @side, or is complete. */
static struct outcome outcome(const struct treadle_msg *msg, int ret, enum treadle_side side)
{
	bool sender = side == TREADLE_SRC;

	if (ret == -EAGAIN)
		treadle_stat_add(&(sender ? msg->cmd->ep : msg->to)->obj.stats, TREADLE_STAT_LATE,
				 1);
	if (ret == -EIOCBQUEUED) /* the bytes come from another node */
		return (struct outcome){ TREADLE_KEPT };
	ret = treadle_copy_verdict(ret, !sender);
	if (ret >= 0)
		return (struct outcome){ ret };
	if (ret == -ESHUTDOWN && sender)
		return (struct outcome){ .src = treadle_ep_error(msg->cmd->ep),
					 .dst = -ECONNRESET };
	if (ret == -ESHUTDOWN)
		return (struct outcome){ .src = sender_error(msg, -ECONNRESET), .dst = -ECANCELED };
	if (sender)
		return (struct outcome){ .src = ret };
	return (struct outcome){ .src = sender_error(msg, -EIO), .dst = ret };
}

/*
 * Deliver in pieces: vectors, several pages, pages that are not known, and what has begun already.
 */
static noinline struct outcome deliver_parts(struct treadle_msg *msg, u64 len,
					     struct treadle_run *run)
{
	enum treadle_side side = TREADLE_NONE;
	struct treadle_span dst;
	int ret = 0;

	/*
	 * The sender has closed, but no copy from its memory would find out, as there is none:
	 * fail as such a copy does.
	 */
	if (msg->cmd && (msg->payload || !len) && treadle_msg_is_late(msg, msg->cmd->ep))
		return outcome(msg, -ESHUTDOWN, TREADLE_SRC);
	if (len - msg->done > TREADLE_INLINE && !run->worker)
		return (struct outcome){ TREADLE_DEFER_THERE };
	if (len) {
		treadle_msg_span(msg, &dst);
		ret = msg->ops->fetch(msg, &dst, len, run, &side);
	}
	return outcome(msg, ret, side);
}

/* The same as copy_at_once() for a message of another node, with its bytes in the frame. */
static noinline bool copy_arrived(const struct treadle_msg *msg, u64 len)
{
	const struct treadle_cmd *cmd = msg->cmd;

	return msg->ops == &treadle_proxy_msg && !msg->payload && !msg->done &&
	       !(cmd->d.flags & TREADLE_F_PULL) && msg->recv->iov_count == 1 &&
	       buffer_owner(msg) == msg->to && !treadle_msg_is_late(msg, cmd->ep) &&
	       treadle_copy_in(msg->to, msg->recv->one.addr, cmd->inject, len);
}

/*
 * Copy a message in one step. False: it is not small, pages are missing, or an endpoint has
 * closed.
 */
static __always_inline bool copy_at_once(const struct treadle_msg *msg, u64 len,
					 const struct treadle_run *run)
{
	const struct treadle_cmd *cmd = msg->cmd;
	const struct treadle_ep *from, *to = msg->to;
	u64 src, dst = msg->recv->one.addr;

	if (unlikely(msg->ops != &treadle_local_msg))
		return copy_arrived(msg, len);
	if (unlikely(msg->payload || msg->done || cmd->vec || cmd->inject ||
		     msg->recv->iov_count != 1 || buffer_owner(msg) != to))
		return false;
	from = cmd->ep;
	src = cmd->d.addr;
	return likely(from->obj.ctx == run->own && own_word(len) &&
		      !treadle_msg_is_late(msg, from)) ?
		       treadle_copy_own(to, dst, src, len, true, NULL) :
		       treadle_copy_small(to, dst, from, src, len, NULL);
}

/* The same as the end of treadle_deliver(), with events. */
static noinline void deliver_traced(struct treadle_msg *msg, u64 len, struct treadle_run *run)
{
	struct treadle_trace_msg name;
	struct outcome o = {};
	u64 all = msg->len;
	u8 space = msg->space;
	bool at_once;

	treadle_trace_msg_begin(msg, &name, run->worker);
	at_once = copy_at_once(msg, len, run);
	if (!at_once)
		o = deliver_parts(msg, len, run);
	treadle_trace_msg_end(&name, space, all, o.verdict ? -EAGAIN : o.src ?: o.dst);
	if (at_once)
		finish(msg, 0, 0, run);
	else
		conclude(msg, o, run);
}

/**
 * treadle_deliver - copy a matched message, and complete both sides
 * @msg:	with its receive; on the stack or allocated; consumed
 * @run:	of the caller; takes what the completions fire
 *
 * If it can't be done here, a worker goes on.
 *
 * Context: May sleep. No spinlock held.
 */
TREADLE_HOT void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run)
{
	u64 len;

	if (unlikely(msg->recv->kind == TREADLE_RECV_MULTI)) {
		struct treadle_recv *part = treadle_multi_part(msg, run);

		if (unlikely(!part)) {
			no_part(msg, run);
			return;
		}
		msg->recv = part;
	}
	len = min(msg->len, msg->recv->one.len);
	if (treadle_trace_copies())
		deliver_traced(msg, len, run);
	else if (likely(copy_at_once(msg, len, run)))
		finish(msg, 0, 0, run);
	else
		conclude(msg, deliver_parts(msg, len, run), run);
}
