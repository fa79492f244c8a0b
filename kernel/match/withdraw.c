// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: posted receives and waiting messages that are taken back
 *
 * By fi_cancel(), or by the end of a connection or an endpoint. However many receives there are,
 * each hold of rx->lock looks at a bounded number.
 */
#include "match/receive.h"

#define FAIL_BATCH 32
#define SCAN_BATCH 1024
#define SCAN_TRIES 16

/* An open endpoint that receives from @rx, held; or NULL. */
static struct treadle_ep *rx_open_ep(struct treadle_rx *rx)
{
	struct treadle_ep *ep;

	spin_lock(&rx->lock);
	ep = treadle_rx_ep(rx);
	if (ep && READ_ONCE(ep->dead))
		ep = NULL;
	if (ep)
		treadle_ep_get(ep);
	spin_unlock(&rx->lock);
	return ep;
}

/*
 * The endpoint that reports @recv in place of another: @own, which has armed it, or an open one of
 * its ring. Held, or NULL.
 */
static struct treadle_ep *notifier_of(struct treadle_recv *recv, struct treadle_ep *own)
{
	return own ? treadle_ep_get(own) : rx_open_ep(recv->rx);
}

/**
 * treadle_rx_notify - complete a receive that has no message
 * @recv:	the receive; consumed
 * @ep:	the endpoint that should report it, held by the caller
 * @error:	with which it completes
 * @run:	takes what the counters fire
 *
 * If @ep has no completion queue, or closes, another endpoint of the ring reports a receive of the
 * ring, as its process waits for it. A receive of a command is reported only while the endpoint
 * that has armed it is open, and freed otherwise.
 *
 * Context: No spinlock held. Takes rx->lock, cq->lock.
 */
void treadle_rx_notify(struct treadle_recv *recv, struct treadle_ep *ep, int error,
		       struct treadle_run *run)
{
	/* the command of @recv holds it until @recv is reported */
	struct treadle_ep *own = recv->cmd ? recv->cmd->ep : NULL, *by = NULL;
	bool notified = false;

	if (!ep->rx_cq)
		by = notifier_of(recv, own);
	if (by && !by->rx_cq) { /* no endpoint has one */
		treadle_ep_put(by);
		by = NULL;
	}
	if (!by)
		by = treadle_ep_get(ep);
	/* ends, as a dead endpoint stays dead */
	while (by && !notified && !(own && READ_ONCE(own->dead))) {
		notified = !READ_ONCE(by->dead) && treadle_recv_notify(recv, by, NULL, error, run);
		treadle_ep_put(by);
		by = notified ? NULL : notifier_of(recv, own);
	}
	if (by)
		treadle_ep_put(by);
	if (!notified)
		treadle_recv_free(recv);
}

static struct treadle_recv *armed_recv(struct treadle_armed *a)
{
	return container_of(a, struct treadle_cmd, armed)->recv;
}

/*
 * Find a posted collective receive with @context. It stays posted, and stays valid while rx->lock
 * is held. NULL: there is none. All are compared, as only operations under way have one. Drops
 * rx->lock now and then, and may sleep.
 */
static struct treadle_recv *find_awaiting(struct treadle_rx *rx, u64 context)
{
	struct treadle_armed *a = treadle_armed_from(&rx->awaiting, 0, 0), at;
	u32 n = 0;

	lockdep_assert_held(&rx->lock);
	while (a && armed_recv(a)->context != context) {
		a = treadle_armed_next(a);
		if (a && ++n == SCAN_BATCH) {
			n = 0;
			at = *a;
			spin_unlock(&rx->lock);
			cond_resched();
			spin_lock(&rx->lock);
			a = treadle_armed_from(&rx->awaiting, at.threshold, at.seq);
		}
	}
	return a ? armed_recv(a) : NULL;
}

/*
 * Take out the oldest posted receive with @context; NULL: there is none. Drops rx->lock now and
 * then, and may sleep.
 */
static struct treadle_recv *rx_take_out(struct treadle_rx *rx, u64 context)
{
	struct treadle_recv *found = NULL;
	struct treadle_rx_slot *slot;
	u32 i, n = 0, tries = 0;
	struct treadle_armed *a;

	lockdep_assert_held(&rx->lock);
again:
	for (i = 0; i < rx->ring.entries; i++) {
		slot = &rx->slots[i];
		if (slot->posted && slot->recv.context == context &&
		    (!found || slot->recv.m.node.seq < found->m.node.seq))
			found = &slot->recv;
		if (++n == SCAN_BATCH) {
			n = 0;
			spin_unlock(&rx->lock);
			cond_resched();
			spin_lock(&rx->lock);
			/* it may have been matched meanwhile */
			if (found &&
			    !(treadle_recv_slot(found)->posted && found->context == context)) {
				found = NULL;
				if (++tries < SCAN_TRIES)
					goto again;
			}
		}
	}
	a = treadle_armed_from(&rx->armed, context, 0);
	if (a && a->threshold == context && (!found || a->seq < found->m.node.seq))
		found = armed_recv(a);
	if (!found)
		found = find_awaiting(rx, context);
	if (found)
		treadle_rx_withdraw(found);
	return found;
}

/**
 * treadle_rx_cancel - cancel the oldest posted receive with a context
 * @rx:	the ring
 * @ep:	the endpoint of fi_cancel(), held by the caller
 * @context:	of the receive
 * @run:	of the caller
 *
 * Context: May sleep. Takes rx->lock.
 * Return: true if there was one.
 */
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run)
{
	struct treadle_ep *by = NULL;
	struct treadle_recv *recv;

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, run);
	recv = rx_take_out(rx, context);
	/* its own endpoint reports a receive of a command; hold it, as the command is freed then */
	if (recv && (recv->kind != TREADLE_RECV_MULTI || treadle_multi_cancel(recv, -ECANCELED)))
		by = treadle_ep_get(recv->cmd && recv->cmd->ep->rx_cq ? recv->cmd->ep : ep);
	spin_unlock(&rx->lock);
	if (by) {
		treadle_rx_notify(recv, by, -ECANCELED, run);
		treadle_ep_put(by);
	}
	return recv;
}

/*
 * Take out up to FAIL_BATCH posted receives, to be canceled; compares at most SCAN_BATCH slots,
 * from *i on. An entry is NULL for a multi-receive with unfinished parts: the last of these ends
 * it.
 */
static int rx_unpost_some(struct treadle_rx *rx, u32 *i, struct treadle_recv **out)
{
	u32 end = min(rx->ring.entries, *i + SCAN_BATCH);
	struct treadle_armed *a;
	int n = 0;

	lockdep_assert_held(&rx->lock);
	for (; *i < end && n < FAIL_BATCH; (*i)++)
		if (rx->slots[*i].posted)
			out[n++] = &rx->slots[*i].recv;
	for (a = treadle_armed_from(&rx->armed, 0, 0); a && n < FAIL_BATCH;
	     a = treadle_armed_next(a))
		out[n++] = armed_recv(a);
	for (end = 0; end < n; end++) {
		treadle_rx_withdraw(out[end]);
		if (out[end]->kind == TREADLE_RECV_MULTI &&
		    !treadle_multi_cancel(out[end], -ECANCELED))
			out[end] = NULL;
	}
	return n;
}

/**
 * treadle_rx_flush - cancel posted receives, as the connection is over
 * @rx:	the ring
 * @ep:	the only endpoint that receives here, held by the caller
 * @slot:	first slot of the ring to look at; a run that has fired a receive looks at none, as
 *		the owner's doorbell cancels those
 * @run:	of the caller
 *
 * From now on receives are canceled whenever they are posted: the ring asks for doorbells.
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_rx_flush(struct treadle_rx *rx, struct treadle_ep *ep, u32 slot,
		      struct treadle_run *run)
{
	struct treadle_recv *canceled[FAIL_BATCH];
	int i, n;

	spin_lock(&rx->lock);
	/* closing sets dead, then takes this lock; after that another endpoint may have the ring */
	if (!READ_ONCE(ep->dead)) {
		rx->shut = true;
		treadle_ring_want_doorbell(&rx->ring); /* C */
		treadle_rx_take(rx, NULL, run);
	}
	while (!READ_ONCE(ep->dead)) {
		n = rx_unpost_some(rx, &slot, canceled);
		if (!n && slot == rx->ring.entries)
			break;
		WRITE_ONCE(rx->flushing, rx->flushing + 1); /* treadle_rx_flushed() */
		spin_unlock(&rx->lock);
		for (i = 0; i < n; i++)
			if (canceled[i] &&
			    !treadle_recv_notify(canceled[i], ep, NULL, -ECANCELED, run))
				treadle_rx_put_back(rx, canceled[i], run);
		treadle_run_let_go(run);
		cond_resched();
		spin_lock(&rx->lock);
		/* after the completions; pairs with treadle_rx_flushed() */
		smp_store_release(&rx->flushing, rx->flushing - 1);
		if (!rx->flushing) {
			smp_mb(); /* wake_up_var() looks for waiters after the release */
			wake_up_var(&rx->flushing);
		}
	}
	spin_unlock(&rx->lock);
}

/**
 * treadle_rx_flushed - wait until no treadle_rx_flush() is completing receives that it has taken
 * out
 * @rx:	the ring
 *
 * Context: May sleep. Not killable, as the wait is bounded: each flush completes FAIL_BATCH
 * receives, and waits for no page and no peer.
 */
void treadle_rx_flushed(struct treadle_rx *rx)
{
	treadle_wait_var(&rx->flushing, !smp_load_acquire(&rx->flushing));
}

/*
 * Does what belongs to @it go when @ep closes? When a whole context ends, all of its endpoints are
 * closed before the first one empties the ring, so that one empties it for all.
 */
static bool goes_with(const struct treadle_ep *it, const struct treadle_ep *ep)
{
	return it == ep || (READ_ONCE(ep->obj.ctx->dead) && READ_ONCE(it->dead));
}

/*
 * Take out up to FAIL_BATCH armed receives of @ep; compares at most SCAN_BATCH, from *at on.
 * Returns true if there are more. Under rx->lock.
 */
static bool rx_unpost_armed(struct rb_root_cached *root, const struct treadle_ep *ep,
			    struct treadle_armed *at, struct treadle_recv **out, int *n)
{
	struct treadle_armed *a = treadle_armed_from(root, at->threshold, at->seq), *next;
	int looks;

	*n = 0;
	for (looks = 0; a && *n < FAIL_BATCH && looks < SCAN_BATCH; a = next, looks++) {
		struct treadle_recv *recv = armed_recv(a);

		next = treadle_armed_next(a);
		if (!goes_with(recv->cmd->ep, ep))
			continue;
		treadle_rx_withdraw(recv);
		out[(*n)++] = recv;
	}
	if (a)
		*at = *a;
	return a;
}

/**
 * treadle_rx_unfeed - take a receive off rx->feeding
 * @recv:	the receive
 *
 * Context: rx->lock held.
 */
void treadle_rx_unfeed(struct treadle_recv *recv)
{
	lockdep_assert_held(&recv->rx->lock);
	list_del(&recv->m.wild);
	if (recv->cmd) {
		list_del(&recv->cmd->wait);
		recv->cmd->recv = NULL;
	}
}

/* Take up to FAIL_BATCH receives that @ep has armed off rx->feeding. */
static int rx_unfeed_some(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_recv **out)
{
	struct list_head *feeding = &treadle_own_ep(ep)->feeding;
	struct treadle_cmd *cmd;
	int n = 0;

	lockdep_assert_held(&rx->lock);
	while (n < FAIL_BATCH && !list_empty(feeding)) {
		cmd = list_first_entry(feeding, struct treadle_cmd, wait);
		out[n] = cmd->recv;
		if (out[n]->m.ignore) /* if the mark is another receive's, that one begins anew */
			treadle_match_unmark(&rx->at);
		treadle_rx_unfeed(out[n++]);
	}
	return n;
}

/*
 * Take up to FAIL_BATCH messages for @ep out of a matcher; compares at most SCAN_BATCH, from @mark
 * on. Returns true if there are more. None is added behind the mark, as @ep is dead.
 */
static bool rx_dequeue_some(struct treadle_rx *rx, u32 which, const struct treadle_ep *ep,
			    struct treadle_match_place *mark, struct treadle_msg **out, int *n)
{
	u32 looks = SCAN_BATCH;
	struct treadle_match_msg *m;

	lockdep_assert_held(&rx->lock);
	for (*n = 0; *n < FAIL_BATCH;) {
		struct treadle_msg *msg;

		m = treadle_match_seek(&rx->match[which], NULL, mark, &looks);
		if (!m)
			return treadle_match_marked(mark);
		msg = container_of(m, struct treadle_msg, m);
		if (!goes_with(msg->to, ep))
			continue;
		treadle_rx_dequeue(rx, msg, NULL);
		out[(*n)++] = msg;
	}
	return true;
}

/* Fail the messages that wait for @ep in one of the matchers. Takes rx->lock; may sleep. */
static void rx_reject(struct treadle_rx *rx, u32 which, const struct treadle_ep *ep,
		      struct treadle_run *run)
{
	struct treadle_msg *failed[FAIL_BATCH];
	struct treadle_match_place mark;
	bool more;
	int i, n;

	treadle_match_mark_init(&mark);
	do {
		spin_lock(&rx->lock);
		more = rx_dequeue_some(rx, which, ep, &mark, failed, &n);
		spin_unlock(&rx->lock);
		for (i = 0; i < n; i++) {
			if (failed[i]->cmd)
				failed[i]->ops->complete(failed[i], -ECONNRESET, run);
			treadle_msg_put(failed[i]);
		}
		treadle_run_let_go(run); /* there may be very many messages */
		cond_resched();
	} while (more);
}

/**
 * treadle_rx_detach - take a closing endpoint off its receive ring
 * @rx:	the ring
 * @ep:	the endpoint, which is dead
 * @run:	takes what the failed sends fire
 *
 * Messages that wait for @ep fail, and its armed receives are freed without a completion. The
 * receives of the ring stay.
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run)
{
	struct treadle_recv *dropped[FAIL_BATCH];
	struct rb_root_cached *root = &rx->armed;
	struct treadle_own_ep *own = treadle_own_ep(ep);
	struct treadle_armed at = {};
	int i, n, which;
	bool more;

	/*
	 * Claimed messages last: one may be claimed meanwhile, through another endpoint of the
	 * ring.
	 */
	for (which = 0; which < TREADLE_MATCHES; which++)
		rx_reject(rx, which, ep, run);
	spin_lock(&rx->lock);
	do {
		n = rx_unfeed_some(rx, ep, dropped);
		more = n || rx_unpost_armed(root, ep, &at, dropped, &n);
		if (!more && root == &rx->armed) {
			root = &rx->awaiting;
			at = (struct treadle_armed){};
			more = true;
		}
		for (i = 0; i < n; i++)
			if (dropped[i]->kind == TREADLE_RECV_MULTI &&
			    !treadle_multi_cancel(dropped[i], 0))
				dropped[i] = NULL;
		spin_unlock(&rx->lock);
		for (i = 0; i < n; i++)
			if (dropped[i])
				treadle_recv_free(dropped[i]);
		cond_resched();
		spin_lock(&rx->lock);
	} while (more);
	if (rx->queued == &own->rx_link)
		rx->queued = own->rx_link.prev;
	list_del(&own->rx_link);
	if (ep->av)
		list_del(&own->named_link);
	rx->shut = false; /* the next endpoint of the ring has another connection */
	treadle_rx_quiet(rx);
	spin_unlock(&rx->lock);
}
