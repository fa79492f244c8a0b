// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: collective receives that await a source
 *
 * A collective receive names its source, and nothing else can complete it. So a posted one is in
 * ->awaited of the source endpoint, and fails when that closes: an end costs what awaits it, and
 * no more. A source on another node has a proxy here, which closes when it ends (proxy/member.c). A
 * receive that has matched is never posted again: it fails if its message can't be read.
 *
 * Lock: ep->lock of the source, under rx->lock of the receive. A receive is added only while the
 * source is not dead, and only while it is posted; it is taken off before it leaves the matcher.
 * So neither holds the other. An endpoint that is dead empties its list before it is freed.
 * cmd->awaits may still name it then: it is used under RCU, and is NULL once the list is emptied.
 */
#include "match/receive.h"
#include "node/node.h"

/* The posted collective receive with number @seq, or NULL. */
static struct treadle_recv *awaiting_at(struct treadle_rx *rx, u32 source, u64 seq)
{
	struct treadle_armed *a = treadle_armed_from(&rx->awaiting, source, seq);

	lockdep_assert_held(&rx->lock);
	if (!a || a->threshold != source || a->seq != seq)
		return NULL;
	return container_of(a, struct treadle_cmd, armed)->recv;
}

/* Let the end of @from, which may be NULL, fail @recv. Returns an error if there is no @from. */
static int recv_await(struct treadle_recv *recv, struct treadle_ep *from)
{
	struct treadle_ep *ep = recv->cmd->ep;
	bool dead;

	lockdep_assert_held(&recv->rx->lock);
	if (!from)
		return -ECONNREFUSED;
	if (!treadle_admits(&from->id, &ep->id) || !treadle_admits(&ep->id, &from->id))
		return -EACCES;
	spin_lock(&from->lock);
	dead = from->dead;
	if (!dead) {
		list_add_tail(&recv->awaiting, &from->awaited);
		WRITE_ONCE(recv->cmd->awaits, from);
	}
	spin_unlock(&from->lock);
	return dead ? -ECONNRESET : 0;
}

static void unlink_awaiting(struct treadle_recv *recv, const struct treadle_ep *from)
{
	lockdep_assert_held(&from->lock);
	list_del(&recv->awaiting);
	WRITE_ONCE(recv->cmd->awaits, NULL);
}

/**
 * treadle_recv_unawait - a collective receive leaves the matcher: its source forgets it
 * @recv:	the receive
 *
 * Context: rx->lock held. Takes ep->lock of the source.
 */
void treadle_recv_unawait(struct treadle_recv *recv)
{
	struct treadle_ep *from;

	lockdep_assert_held(&recv->rx->lock);
	rcu_read_lock();
	from = READ_ONCE(recv->cmd->awaits);
	if (from) {
		spin_lock(&from->lock);
		if (recv->cmd->awaits) /* else @from has just died */
			unlink_awaiting(recv, from);
		spin_unlock(&from->lock);
	}
	rcu_read_unlock();
}

static void fail(struct treadle_recv *recv, int error, struct treadle_run *run)
{
	struct treadle_ep *ep = treadle_ep_get(recv->cmd->ep);

	treadle_recv_complete(recv, ep, NULL, error, run);
	treadle_ep_put(ep);
}

/**
 * treadle_rx_await - let a collective receive that was posted await its source, or fail
 * @rx:		the ring
 * @source:	that it names
 * @seq:	its number; it may have matched since
 * @run:	takes what the counters fire
 *
 * Only @seq fails here: the source may admit other endpoints of the ring.
 *
 * Context: May sleep. Takes rx->lock, and ep->lock of the source.
 */
void treadle_rx_await(struct treadle_rx *rx, u32 source, u64 seq, struct treadle_run *run)
{
	struct treadle_session *s;
	struct treadle_ep *from;

	if (likely(treadle_is_here(source))) {
		from = treadle_ep_find(rx->obj.ctx->ports, source);
		treadle_rx_await_ep(rx, from, source, seq, run);
		if (from)
			treadle_ep_put(from);
		return;
	}
	s = treadle_session_get(rx->obj.ctx->net, treadle_source_host(source));
	if (!s) {
		treadle_rx_lost(rx, source, seq, -EHOSTUNREACH, run);
		return;
	}
	treadle_node_ops.await(s, rx, source, seq, run);
	treadle_session_put(s);
}

/**
 * treadle_rx_await_ep - the same, with the endpoint of the source
 * @rx:		the ring
 * @from:	the endpoint, which may be a proxy; NULL: there is none
 * @source:	of it
 * @seq:	number of the receive
 * @run:	takes what the counters fire
 *
 * Context: as treadle_rx_await().
 */
void treadle_rx_await_ep(struct treadle_rx *rx, struct treadle_ep *from, u32 source, u64 seq,
			 struct treadle_run *run)
{
	struct treadle_recv *recv;
	int error = 0;

	spin_lock(&rx->lock);
	recv = awaiting_at(rx, source, seq);
	if (recv)
		error = recv_await(recv, from);
	if (error)
		treadle_rx_withdraw(recv);
	spin_unlock(&rx->lock);
	if (error)
		fail(recv, error, run);
}

/*
 * Take the oldest receive off the list of @ep. False: there is none. *@rx: its ring, held, and
 * *@seq its number; NULL: the endpoint of the receive is dead, too, and its own end frees it.
 */
static bool next_awaiting(struct treadle_ep *ep, struct treadle_rx **rx, u64 *seq)
{
	struct treadle_recv *recv;

	*rx = NULL;
	spin_lock(&ep->lock);
	recv = list_first_entry_or_null(&ep->awaited, struct treadle_recv, awaiting);
	if (recv) {
		if (!READ_ONCE(recv->cmd->ep->dead)) {
			*rx = recv->rx; /* the endpoint of the command holds it */
			kref_get(&(*rx)->obj.ref);
			*seq = recv->m.node.seq;
		}
		unlink_awaiting(recv, ep);
	}
	spin_unlock(&ep->lock);
	return recv;
}

/**
 * treadle_rx_lost - fail a collective receive, if it is still posted: its source is lost
 * @rx:		the ring
 * @source:	that it names
 * @seq:	its number
 * @error:	with which it completes
 * @run:	takes what the counters fire
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_rx_lost(struct treadle_rx *rx, u32 source, u64 seq, int error, struct treadle_run *run)
{
	struct treadle_recv *recv;

	spin_lock(&rx->lock);
	recv = awaiting_at(rx, source, seq);
	if (recv)
		treadle_rx_withdraw(recv);
	spin_unlock(&rx->lock);
	if (recv)
		fail(recv, error, run);
}

/**
 * treadle_ep_notify_death - fail the collective receives that await a closed endpoint
 * @ep:		dead: no receive is added any more, which bounds the loop
 * @run:	takes what the counters fire
 *
 * Context: May sleep. Takes ep->lock; rx->lock of the receives.
 */
void treadle_ep_notify_death(struct treadle_ep *ep, struct treadle_run *run)
{
	struct treadle_rx *rx;
	u64 seq;

	while (next_awaiting(ep, &rx, &seq)) {
		if (rx) {
			treadle_rx_lost(rx, ep->id.source, seq, -ECONNRESET, run);
			treadle_obj_put(&rx->obj);
		}
		treadle_run_let_go(run);
		cond_resched();
	}
}
