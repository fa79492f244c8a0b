// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: send and receive, plain and tagged
 *
 * fi_msg(3), fi_tagged(3). A send finds its target, then a receive. If there is
 * one, the bytes go straight into it. If not, the message is kept in the target's matcher: a
 * small one as a copy, for which the target pays, a large one (or one that
 * is to be confirmed, or when the target's budget is used up, or was for one before it that still waits) as a reference to
 * the sender's command, which waits there. All wait in one queue, so messages
 * of one sender match in the order in which it sent them.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "own.h"
#include "treadle.h"

#define LOOKS	   16
#define FILL_TRIES 32 /* of who has others to do */

static bool is_tagged(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_TSEND || d->opcode == TREADLE_OP_TRECV;
}

/* Collective messages are tagged ones that only their like can meet. */
static u8 space_of(const struct treadle_desc *d)
{
	return unlikely(d->flags & TREADLE_F_COLLECTIVE) ? TREADLE_COLLECTIVE : is_tagged(d);
}

/* Whoever takes part in collectives is a whole endpoint: its port is its name. */
static bool is_member(const struct treadle_ep *ep)
{
	return ep->type == TREADLE_EP_RDM && !ep->role;
}

/* --- send --------------------------------------------------------------------------------- */

/* Where to: the port, or why not. Who is connected has one way only. */
TREADLE_HOT int treadle_route(struct treadle_cmd *cmd)
{
	if (unlikely(cmd->ep->type == TREADLE_EP_MSG)) {
		cmd->route = cmd->port = 0;
		return treadle_conn_judge(cmd->ep, cmd->d.flags & TREADLE_F_COND);
	}
	if (!cmd->ep->av)
		return -EDESTADDRREQ;
	cmd->route = treadle_av_resolve(cmd->ep->av, cmd->d.peer, &cmd->port);
	return cmd->route == -EDESTADDRREQ ? cmd->route : 0; /* others: in the completion */
}

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
			return -EOPNOTSUPP; /* nobody would know */
		if (d->len > TREADLE_MAX_DGRAM)
			return -EMSGSIZE;
	}
	return treadle_route(cmd);
}

/* The endpoint that a command goes to, held; it lets this one in. */
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

TREADLE_HOT struct treadle_ep *treadle_find_target(const struct treadle_cmd *cmd)
{
	return find_target(cmd);
}

/*
 * Copy the sender's bytes behind the message. -EAGAIN: they have to be waited for, which nobody does with room of the
 * receiver's in his hands: else others would have none as long as the sender's page likes (userfaultfd). -EINPROGRESS:
 * its worker has to go on.
 */
static int fill_payload(struct treadle_msg *msg, struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_span src, dst;
	enum treadle_side side = TREADLE_NONE;
	int ret;

	if (likely(cmd->ep->obj.ctx == run->own && !cmd->vec && !cmd->inject) &&
	    likely(treadle_own_read(msg->payload, cmd->d.addr, msg->len)))
		return 0;
	run->holds = msg->charge;
	do {
		treadle_cmd_span(cmd, &src, msg->done);
		treadle_span_kernel(&dst, msg->payload, msg->done);
		ret = treadle_copy(&dst, &src, &msg->done, msg->len, run, &side);
		/* so that his messages stay in order */
	} while ((ret == -EINPROGRESS || (ret == -EAGAIN && !msg->charge)) &&
		 treadle_run_insists(run, cmd->ep->obj.ctx));
	run->holds = false;
	return ret;
}

/*
 * Wait for the sender's bytes from @done on. He who rings does so as long as it takes, so that his messages stay in order;
 * a worker only where what comes behind waits, too. -EAGAIN: it is left to others.
 */
static int await_payload(struct treadle_cmd *cmd, u64 done, int tries, struct treadle_run *run)
{
	bool insists = treadle_run_insists(run, cmd->ep->obj.ctx);
	struct treadle_span src;
	int ret;

	if (!insists && (tries > FILL_TRIES || cmd->tracked != TREADLE_AWAITED))
		return -EAGAIN;
	treadle_cmd_span(cmd, &src, done);
	ret = treadle_span_fill(&src, cmd->d.len - done, false, run);
	return ret == -EAGAIN && insists ? 0 : ret;
}

/* What is not delivered is dropped, and the sender told of success: fi_domain(3), "DGRAM EP". */
static bool is_lossy(const struct treadle_msg *m)
{
	return m->to->type == TREADLE_EP_DGRAM;
}

/*
 * What @m holds up, which nobody has received, and which goes with its sender's endpoint. If it could have been copied,
 * what comes behind it is not, so that nothing is missing before it if the endpoint ends. What is long, or to be
 * confirmed, waits for its receiver in any case.
 */
static enum treadle_track msg_track(const struct treadle_msg *m)
{
	return m->len <= TREADLE_EAGER && !(m->flags & TREADLE_F_DELIVERY_COMPLETE) ?
		       TREADLE_CROWDED :
		       TREADLE_FENCED;
}

/*
 * Allocate what is needed to keep @m. Without memory for a copy, or if it is @slow, the message
 * waits with its command, unless it has to be copied, or is lossy (NULL).
 */
static struct treadle_msg *msg_alloc(const struct treadle_msg *m, bool slow,
				     struct treadle_run *run)
{
	struct treadle_cmd *cmd = m->cmd;
	struct treadle_rx *rx = m->to->rx;
	bool inject = cmd->d.flags & TREADLE_F_INJECT;
	bool unconfirmed = inject || !(cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE);
	bool copy = is_lossy(m) ||
		    (m->len <= TREADLE_EAGER && unconfirmed && !slow && !treadle_flow_crowded(cmd));
	u32 charge = sizeof(*m) + m->len;
	struct treadle_msg *msg = NULL;
	struct mem_cgroup *old;

	if (copy && treadle_rx_charge(rx, charge)) {
		old = set_active_memcg(m->to->obj.ctx->memcg);
		msg = kmalloc(charge, TREADLE_GFP_OTHER);
		set_active_memcg(old);
		if (!msg)
			treadle_rx_uncharge(rx, charge);
	}
	if (msg) {
		*msg = *m;
		msg->charge = charge;
		msg->payload = (u8 *)(msg + 1);
	} else if (is_lossy(m)) {
		return NULL;
	} else if (inject && !slow) {
		/* beyond the target's means: the sender pays */
		msg = treadle_cmd_alloc(cmd, charge, treadle_keep_gfp(cmd), run);
		if (!msg)
			return NULL;
		*msg = *m;
		msg->payload = (u8 *)(msg + 1);
	} else {
		msg = treadle_cmd_alloc(cmd, sizeof(*msg), treadle_keep_gfp(cmd), run);
		if (!msg)
			return NULL;
		*msg = *m;
	}
	kref_init(&msg->ref);
	INIT_LIST_HEAD(&msg->job.link);
	msg->heap = true;
	msg->claimed = msg->lent = false;
	msg->done = 0;
	treadle_ep_get(msg->to);
	return msg;
}

/* In the sender's worker, whose pages a datagram waits for, as does what comes after it. */
struct slow_send {
	struct treadle_job job;
	struct treadle_cmd *cmd;
};

static void send_go_on(struct treadle_job *job, struct treadle_run *run)
{
	struct slow_send *slow = container_of(job, struct slow_send, job);
	struct treadle_cmd *cmd = slow->cmd;

	kfree(slow);
	treadle_send_issue(cmd, run);
}

static void send_later(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct slow_send *slow = treadle_cmd_alloc(cmd, sizeof(*slow), TREADLE_GFP_MUST, run);

	slow->cmd = treadle_cmd_persist(cmd, TREADLE_GFP_MUST, run);
	treadle_flow_track(slow->cmd, TREADLE_AWAITED, run);
	slow->cmd->admitted = true;
	INIT_LIST_HEAD(&slow->job.link);
	slow->job.ctx = slow->cmd->ep->obj.ctx;
	slow->job.fn = send_go_on;
	treadle_queue_job(&slow->job);
}

/*
 * Make @m fit to wait, off its caller's stack. NULL: nothing was to be kept
 * (failed, completed), or the sender's worker goes on with it.
 */
static struct treadle_msg *msg_keepable(struct treadle_msg *m, struct treadle_run *run)
{
	struct treadle_cmd *cmd = m->cmd, *heap;
	bool slow = false;
	struct treadle_msg *msg;
	int ret, tries = 0;
	u64 done;

again:
	ret = is_lossy(m) ? 0 : -ENOMEM;
	msg = msg_alloc(m, slow, run);
	if (!msg)
		goto fail;
	/* only a copy that is whole and needs no confirmation lets the sender go */
	if (!msg->payload || (cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE)) {
		heap = treadle_cmd_persist(cmd, treadle_keep_gfp(cmd), run);
		if (!heap)
			goto fail;
		treadle_flow_track(heap, msg_track(msg), run);
		msg->cmd = m->cmd = cmd = heap;
	}
	ret = msg->payload ? fill_payload(msg, cmd, run) : 0;
	if (!ret) {
		msg->done = 0; /* from here on: bytes delivered */
		return msg;
	}
	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		done = msg->done;
		treadle_msg_put(msg);
		msg = NULL;
		ret = ret == -EAGAIN ? await_payload(cmd, done, ++tries, run) : -EAGAIN;
		slow = ret == -EAGAIN;
		if (slow && is_lossy(m)) {
			send_later(cmd, run);
			return NULL;
		}
		/* or it waits uncopied, in its place: what comes after it does not overtake it */
		if (!ret || slow)
			goto again;
	}
fail:
	if (msg)
		treadle_msg_put(msg);
	treadle_cmd_fail(cmd, ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret, run);
	return NULL;
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

/* Put @msg into the matcher; under rx->lock, which closing takes after it has set dead. */
static int msg_keep(struct treadle_rx *rx, struct treadle_msg *msg)
{
	int ret = 0;

	if (READ_ONCE(msg->to->dead)) /* of a connection, as when it hangs up */
		return msg->to->type == TREADLE_EP_MSG ? -ECONNRESET : -ECONNREFUSED;
	if (READ_ONCE(msg->to->severed))
		return -ECONNRESET;
	if (msg->cmd)
		ret = treadle_msg_park(msg);
	if (ret)
		return ret;
	treadle_match_keep(&rx->match[msg->space], &msg->m);
	msg->queued = true;
	return 0;
}

/*
 * Do older ones wait, so that whoever posts rings (C)? He finds receives for them, and is done with one after the other. If
 * we took them from his ring, as one does who has begun to, his worker would go on beside him, and be done at another time.
 */
static bool is_rung_for(const struct treadle_rx *rx, const struct treadle_msg *msg)
{
	return rx->match[msg->space].messages && (rx->ring.kern->flags & TREADLE_RING_DOORBELL);
}

/* Match @msg (on the stack, or ready to be kept) or keep it. Consumes msg->cmd. */
TREADLE_HOT static void msg_send(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_rx *rx = msg->to->rx;
	struct treadle_cmd *told = NULL;
	bool ready = false;
	int ret, looks = 0;
	u8 space;

again:
	spin_lock(&rx->lock);
	for (;;) {
		msg->recv = treadle_match_posted(&rx->match[msg->space]) ?
				    treadle_rx_match(rx, msg) :
				    NULL;
		if (unlikely(msg->space == TREADLE_COLLECTIVE)) /* no ring has receives for it */
			break;
		if (!msg->recv && is_rung_for(rx, msg))
			break;
		if (!msg->recv) /* may drop the lock for a moment */
			msg->recv = treadle_rx_take(rx, msg, run);
		if (msg->recv || !ready)
			break;
		/*
		 * Who posts from now on rings; who has posted before is seen now (C). Others may have asked for that, and
		 * not have come to the end of the ring since. A process that posts and does not ring is not waited for.
		 */
		if (!(rx->ring.kern->flags & TREADLE_RING_DOORBELL))
			treadle_ring_want_doorbell(&rx->ring);
		else if (rx->handed || treadle_ring_empty(&rx->ring))
			break;
		if (++looks >= LOOKS)
			treadle_rx_hand_over(rx);
	}
	if (msg->recv) {
		if (told) {
			/* copied already: as far as the sender is concerned, it is sent */
			msg->cmd = NULL;
			msg->lent = treadle_rx_lends(msg->recv, msg);
			if (msg->lent) {
				treadle_match_keep(&rx->match[msg->space], &msg->m);
				treadle_match_lend_msg(&rx->match[msg->space], &msg->m);
			}
		}
		spin_unlock(&rx->lock);
		if (!ready) {
			/* matched before the copy was whole: straight from the sender then */
			msg->payload = NULL;
			msg->done = 0;
		}
		treadle_deliver(msg, run);
		if (told)
			treadle_cmd_complete(told, 0, run);
		return;
	}
	if (!ready) {
		spin_unlock(&rx->lock);
		msg = msg_keepable(msg, run);
		if (!msg)
			return;
		ready = true;
		if (msg->payload && !(msg->cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE))
			told = msg->cmd;
		goto again;
	}
	if (told)
		msg->cmd = NULL;
	space = msg->space;
	ret = msg_keep(rx, msg);
	spin_unlock(&rx->lock);
	if (!ret) { /* it may be gone already */
		treadle_rx_grow(rx, space, run);
		if (told)
			treadle_cmd_complete(told, 0, run);
		return;
	}
	treadle_cmd_complete(told ?: msg->cmd, is_lossy(msg) ? 0 : ret, run);
	treadle_msg_put(msg);
}

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
	if (IS_ERR(to)) { /* of a datagram nobody hears it: is_lossy() */
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

/*
 * Take back up to @max messages of @ep that wait at peers (those with @context,
 * if given; else by their contexts): complete their commands with @error, or drop them silently (0).
 *
 * A command is in ep->parked exactly while its message is queued; both change under the
 * target's rx->lock, which is taken before ep->lock. So it is held, both are
 * dropped, and it is looked at again under the target's lock.
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
			treadle_msg_put(msg); /* the queue's */
		}
		treadle_msg_put(msg);
		cond_resched();
	}
}

/* --- receive ---------------------------------------------------------------------------------- */

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
	/* now, so that firing can't fail for want of memory; others become one */
	cmd->recv = kzalloc(sizeof(*cmd->recv), TREADLE_GFP);
	return cmd->recv ? 0 : -ENOMEM;
}

/*
 * A collective receive of @ep was posted as @seq, and may have been matched since. Who vanishes tells
 * those who wait for him (treadle_ep_die), if he knows that there are any: either he
 * sees that he is awaited, or he is seen to be dead here. Others of the ring may be let in by who does not let in @ep, or
 * have been posted since somebody else came to the port.
 */
static void await_source(struct treadle_ep *ep, u32 port, u64 seq, struct treadle_run *run)
{
	struct treadle_ep *from = treadle_ep_find(ep->obj.ctx->ports, port);
	int error = -ECONNREFUSED;

	if (from && treadle_ep_admits(from, ep) && treadle_ep_admits(ep, from)) {
		WRITE_ONCE(from->awaited, true);
		smp_mb(); /* pairs with treadle_ep_die() */
		error = READ_ONCE(from->dead) ? -ECONNRESET : 0;
	} else if (from) {
		error = -EACCES;
	}
	if (from)
		treadle_ep_put(from);
	if (error)
		treadle_rx_bereave(ep->rx, port, &seq, error, run);
}

/* A receive that came through a transmit ring: one that was armed, mostly. */
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ep *ep = treadle_ep_get(cmd->ep);
	struct treadle_rx *rx = ep->rx;
	struct treadle_recv *recv;
	bool dead, shut;
	u64 seq;
	u32 source;
	u8 space;
	int ret;

	recv = treadle_cmd_recv(treadle_cmd_persist(cmd, TREADLE_GFP_MUST, run), &ret);
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
		treadle_rx_take(rx, NULL, run); /* those posted before are older */
	/* closing takes out what is posted, under this lock, after it has set dead */
	dead = READ_ONCE(ep->dead);
	shut = rx->shut;
	seq = rx->seq; /* which it gets */
	if (!dead)
		treadle_rx_place(rx, recv, run);
	treadle_rx_feed(rx, run);
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
