// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: posted receives and waiting messages that are taken back
 *
 * By fi_cancel, by the end of a connection, of an endpoint, or of the only one who could have
 * sent. However many receives there are, each hold of rx->lock looks at a bounded number of them.
 */
#include "match/receive.h"

#define FAIL_BATCH 32
#define SCAN_BATCH 1024
#define SCAN_TRIES 16

/* Whoever is open and receives from @rx, held, or NULL. */
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

/* Who tells of @recv instead of another endpoint: who has armed it, or whoever receives from its ring. Held, or NULL. */
static struct treadle_ep *teller(struct treadle_recv *recv, struct treadle_ep *own)
{
	return own ? treadle_ep_get(own) : rx_open_ep(recv->rx);
}

/*
 * Complete a receive that no message is for by @ep, or, if that has no queue, or is closed and the receive stays with
 * the ring, by another endpoint that receives here: its owner waits for it. What was armed goes with the endpoint that
 * has armed it. Without rx->lock. It ends, as who has closed stays so.
 */
void treadle_rx_tell(struct treadle_recv *recv, struct treadle_ep *ep, int error,
		     struct treadle_run *run)
{
	/* that of a receive which is not told of holds it */
	struct treadle_ep *own = recv->cmd ? recv->cmd->ep : NULL, *by = NULL;
	bool told = false;

	if (!ep->rx_cq)
		by = teller(recv, own);
	if (by && !by->rx_cq) { /* nobody has one */
		treadle_ep_put(by);
		by = NULL;
	}
	if (!by)
		by = treadle_ep_get(ep);
	while (by && !told && !(own && READ_ONCE(own->dead))) {
		told = !READ_ONCE(by->dead) && treadle_recv_tell(recv, by, NULL, error, run);
		treadle_ep_put(by);
		by = told ? NULL : teller(recv, own);
	}
	if (by)
		treadle_ep_put(by);
	if (!told)
		treadle_recv_free(recv);
}

static struct treadle_recv *armed_recv(struct treadle_armed *a)
{
	return container_of(a, struct treadle_cmd, armed)->recv;
}

/*
 * A collective receive with @context, or NULL; there are as many as operations that its process has under way. Drops
 * the lock now and then.
 */
static struct treadle_recv *find_awaiting(struct treadle_rx *rx, u64 context)
{
	struct treadle_armed *a = treadle_armed_from(&rx->awaiting, 0, 0), at;
	u32 n = 0;

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

/* The oldest posted receive with @context, taken out, or NULL. Drops the lock now and then. */
static struct treadle_recv *rx_find(struct treadle_rx *rx, u64 context)
{
	struct treadle_recv *found = NULL;
	struct treadle_rx_slot *slot;
	u32 i, n = 0, tries = 0;
	struct treadle_armed *a;

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

/* fi_cancel of a posted receive. */
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run)
{
	struct treadle_ep *by = NULL;
	struct treadle_recv *recv;

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, run);
	recv = rx_find(rx, context);
	/* what came through a transmit ring is told to its endpoint, and is gone, with what it holds, when it was */
	if (recv && (recv->kind != TREADLE_RECV_MULTI || treadle_multi_cancel(recv, -ECANCELED)))
		by = treadle_ep_get(recv->cmd && recv->cmd->ep->rx_cq ? recv->cmd->ep : ep);
	spin_unlock(&rx->lock);
	if (by) {
		treadle_rx_tell(recv, by, -ECANCELED, run);
		treadle_ep_put(by);
	}
	return recv;
}

/*
 * Up to FAIL_BATCH posted receives, taken out, from slot *i on; looks at SCAN_BATCH slots at most.
 * NULL: a multi-receive that some messages are still in, which ends with them.
 */
static int rx_unpost_some(struct treadle_rx *rx, u32 *i, struct treadle_recv **out)
{
	u32 end = min(rx->ring.entries, *i + SCAN_BATCH);
	struct treadle_armed *a;
	int n = 0;

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

/*
 * The connection of @ep, the only endpoint here, is over: receives that no message
 * waits for are canceled, now and whenever one is posted, which asks for a doorbell. Those of the ring
 * from @slot on: who fires one passes over all of them, as their owner has rung.
 */
void treadle_rx_flush(struct treadle_rx *rx, struct treadle_ep *ep, u32 slot,
		      struct treadle_run *run)
{
	struct treadle_recv *canceled[FAIL_BATCH];
	int i, n;

	spin_lock(&rx->lock);
	/* closing takes this lock after it has set dead; then the ring may be somebody else's */
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
			    !treadle_recv_tell(canceled[i], ep, NULL, -ECANCELED, run))
				treadle_rx_put_back(rx, canceled[i], run);
		treadle_run_let_go(run);
		cond_resched();
		spin_lock(&rx->lock);
		/* after all that was told; pairs with treadle_rx_flushed() */
		smp_store_release(&rx->flushing, rx->flushing - 1);
		if (!rx->flushing) {
			smp_mb(); /* as in treadle_ctx_shutdown() */
			wake_up_var(&rx->flushing);
		}
	}
	spin_unlock(&rx->lock);
}

/*
 * treadle_rx_flushed - wait until no treadle_rx_flush() is telling of receives that it took out
 *
 * May sleep. Not killable, as it is bounded: each tells of FAIL_BATCH receives, for which it waits for
 * no page and no peer.
 */
void treadle_rx_flushed(struct treadle_rx *rx)
{
	treadle_wait_var(&rx->flushing, !smp_load_acquire(&rx->flushing));
}

/*
 * Where the whole context ends, all of its endpoints are closed first, so that nothing more comes to any: the first one of
 * a ring empties that for the others.
 */
static bool goes_with(const struct treadle_ep *it, const struct treadle_ep *ep)
{
	return it == ep || (READ_ONCE(ep->obj.ctx->dead) && READ_ONCE(it->dead));
}

/* Up to FAIL_BATCH armed receives of @ep, taken out; looks at SCAN_BATCH at most, from *at on; is there more? */
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

/* Up to FAIL_BATCH collective receives that wait for @port (only that one with *seq), and were posted before @end, taken out. */
static int rx_unpost_awaiting(struct treadle_rx *rx, u32 port, const u64 *seq, u64 end,
			      struct treadle_recv **out)
{
	struct treadle_armed *a;
	int n;

	for (n = 0; n < FAIL_BATCH; n++) {
		a = treadle_armed_from(&rx->awaiting, port, seq ? *seq : 0);
		if (!a || a->threshold != port || a->seq >= end || (seq && a->seq != *seq))
			break;
		out[n] = armed_recv(a);
		treadle_rx_withdraw(out[n]);
	}
	return n;
}

/*
 * Nothing more comes from @port: fail the collective receives that wait for it, or (seq) one of them. Those only that
 * are there: who posts another one sees himself that nobody is at the port, and we are done though he goes on.
 */
void treadle_rx_bereave(struct treadle_rx *rx, u32 port, const u64 *seq, int error,
			struct treadle_run *run)
{
	struct treadle_recv *failed[FAIL_BATCH];
	u64 end = U64_MAX;
	int i, n;

	do {
		spin_lock(&rx->lock);
		end = min(end, rx->seq);
		n = rx_unpost_awaiting(rx, port, seq, end, failed);
		spin_unlock(&rx->lock);
		for (i = 0; i < n; i++) {
			struct treadle_ep *ep = treadle_ep_get(failed[i]->cmd->ep);

			treadle_recv_complete(failed[i], ep, NULL, error, run);
			treadle_ep_put(ep);
		}
		treadle_run_let_go(run);
		cond_resched();
	} while (n == FAIL_BATCH);
}

/* In @rx: who has a collective receive that only an endpoint of @ctx could have sent to is told. */
void treadle_rx_mourn(struct treadle_rx *rx, struct treadle_ctx *ctx, struct treadle_run *run)
{
	struct treadle_armed *a;
	struct treadle_ep *from;
	u64 port = 0;

	for (;; port++) {
		spin_lock(&rx->lock);
		a = treadle_armed_from(&rx->awaiting, port, 0);
		if (a)
			port = a->threshold;
		spin_unlock(&rx->lock);
		if (!a)
			return;
		from = treadle_ep_find(ctx->ports, port);
		/* whom @from does not let in, or who does not let him in, has failed already: await_source() */
		if (from && from->obj.ctx == ctx)
			treadle_rx_bereave(rx, port, NULL, -ECONNRESET, run);
		if (from)
			treadle_ep_put(from);
		cond_resched();
	}
}

/* Up to FAIL_BATCH receives that were armed on @ep and are about to look at more messages, taken out. */
static int rx_unfeed_some(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_recv **out)
{
	struct treadle_cmd *cmd;
	int n = 0;

	while (n < FAIL_BATCH && !list_empty(&ep->feeding)) {
		cmd = list_first_entry(&ep->feeding, struct treadle_cmd, wait);
		out[n] = cmd->recv;
		if (out[n]->m.ignore) /* if the mark is another's, that one begins anew */
			treadle_match_unmark(&rx->at);
		treadle_rx_unfeed(out[n++]);
	}
	return n;
}

/*
 * Up to FAIL_BATCH messages for @ep, taken out; looks at SCAN_BATCH at most, from @mark on. Is
 * there more? None comes after it, as @ep is dead.
 */
static bool rx_dequeue_some(struct treadle_rx *rx, u32 which, const struct treadle_ep *ep,
			    struct treadle_match_place *mark, struct treadle_msg **out, int *n)
{
	u32 looks = SCAN_BATCH;
	struct treadle_match_msg *m;

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

/* Fail the messages that wait for @ep in one of the matchers. */
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
				treadle_cmd_complete(failed[i]->cmd, -ECONNRESET, run);
			treadle_msg_put(failed[i]);
		}
		treadle_run_let_go(run); /* there may be very many */
		cond_resched();
	} while (more);
}

/*
 * @ep closes: fail the messages that wait for it, drop its armed receives. The
 * receives in the ring stay with the ring.
 */
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run)
{
	struct treadle_recv *dropped[FAIL_BATCH];
	struct rb_root_cached *root = &rx->armed;
	struct treadle_armed at = {};
	int i, n, which;
	bool more;

	/* those that were claimed last: a message may be claimed meanwhile, through another endpoint */
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
	if (rx->queued == &ep->rx_link)
		rx->queued = ep->rx_link.prev;
	list_del(&ep->rx_link);
	if (ep->av)
		list_del(&ep->named_link);
	rx->shut = false; /* whoever receives here next is not concerned */
	treadle_rx_quiet(rx);
	spin_unlock(&rx->lock);
}
