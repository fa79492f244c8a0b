// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what drains a receive ring besides senders
 *
 * The process does it by a doorbell, and the worker of its context where that would take a sender
 * too long. After the end of a connection, what is drained is canceled.
 */
#include "match/receive.h"

/**
 * treadle_rx_shut - must the caller cancel what was posted, as the connection is over?
 * @rx:	the ring
 * @run:	of the caller
 *
 * Canceling goes on for as long as the process posts. So only a run of the ring's own context does
 * it; for other runs, the worker of that context is started.
 *
 * Context: rx->lock held, after receives were posted.
 * Return: true if the caller has to call treadle_rx_flush() once it has dropped rx->lock.
 */
bool treadle_rx_shut(struct treadle_rx *rx, const struct treadle_run *run)
{
	lockdep_assert_held(&rx->lock);
	if (likely(!rx->shut) || !treadle_rx_ep(rx))
		return false;
	if (treadle_run_is_for(run, rx->obj.ctx))
		return true;
	treadle_rx_hand_over(rx);
	return false;
}

/* The endpoint for flush() if the caller must cancel what is posted, held; else NULL. */
static struct treadle_ep *shut_ep(struct treadle_rx *rx, const struct treadle_run *run)
{
	return treadle_rx_shut(rx, run) ? treadle_ep_get(treadle_rx_ep(rx)) : NULL;
}

/* Cancel what is posted, if @ep is not NULL, and put @ep. Called without rx->lock. */
static void flush(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run)
{
	if (!ep)
		return;
	treadle_rx_flush(rx, ep, 0, run);
	treadle_ep_put(ep);
}

/*
 * The worker of the ring's context takes receives. Senders take none while rx->handed is set. A
 * receive that is posted after this job has seen the end of the ring rings, if a message waits:
 * DOORBELL was set before the message began to wait (C).
 */
static void rx_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_rx *rx = container_of(job, struct treadle_rx, job);
	struct treadle_ep *ep;
	bool more;

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, run);
	more = treadle_rx_ep(rx) && !treadle_ring_empty(&rx->ring);
	rx->handed = more;
	treadle_rx_quiet(rx);
	ep = shut_ep(rx, run);
	spin_unlock(&rx->lock);
	flush(rx, ep, run);
	if (more)
		treadle_queue_job(job);
	else
		treadle_obj_put(&rx->obj);
}

/**
 * treadle_rx_hand_over - let the worker of the ring's context take the posted receives
 * @rx:	the ring
 *
 * Context: rx->lock held.
 */
void treadle_rx_hand_over(struct treadle_rx *rx)
{
	lockdep_assert_held(&rx->lock);
	if (rx->handed)
		return;
	rx->handed = true;
	kref_get(&rx->obj.ref); /* held by the job */
	rx->job.ctx = rx->obj.ctx;
	rx->job.fn = rx_job;
	treadle_queue_job(&rx->job);
}

/**
 * treadle_rx_behind - are there posted receives that were not matched yet?
 * @rx:	the ring
 *
 * If so, a younger receive is posted by the owner's worker, which is charged for matching the
 * older ones.
 *
 * Context: any; without rx->lock, so receives that are posted or taken meanwhile may count or not.
 * Return: true if there are such receives.
 */
bool treadle_rx_behind(struct treadle_rx *rx)
{
	return data_race(rx->handed || !list_empty(&rx->feeding) || !treadle_ring_empty(&rx->ring));
}

/**
 * treadle_rx_feed - go on with receives with masks, after treadle_rx_place()
 * @rx:	the ring
 * @run:	of the caller
 *
 * A run of the ring's own context compares them with the waiting messages now, else the worker
 * does.
 *
 * Context: rx->lock held. May drop it, and sleep then.
 */
void treadle_rx_feed(struct treadle_rx *rx, struct treadle_run *run)
{
	lockdep_assert_held(&rx->lock);
	if (list_empty(&rx->feeding))
		return;
	if (treadle_run_is_for(run, rx->obj.ctx))
		treadle_rx_take(rx, NULL, run);
	else
		treadle_rx_hand_over(rx);
}

/**
 * treadle_rx_doorbell - take what the process has posted
 * @rx:	the ring
 *
 * Context: Called by the process of the ring. May sleep. Takes rx->lock.
 * Return: 0, or -ESHUTDOWN if the ring is broken.
 */
int treadle_rx_doorbell(struct treadle_rx *rx)
{
	struct treadle_ep *ep;
	int ret;
	TREADLE_RUN(run, rx->obj.ctx);

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, &run); /* even if rx->handed is set */
	treadle_rx_quiet(rx); /* the message that asked for doorbells may have been matched */
	ret = rx->ring.broken ? -ESHUTDOWN : 0;
	ep = shut_ep(rx, &run);
	spin_unlock(&rx->lock);
	flush(rx, ep, &run);
	treadle_run_jobs(&run);
	return ret;
}

/**
 * treadle_rx_put_back - post a receive again, at its old place, as if it had not been matched
 * @rx:	the ring
 * @recv:	the receive
 * @run:	of the caller
 *
 * A receive of a command is freed instead if the endpoint that has armed it is dead. A receive of
 * the ring stays with the ring, whichever endpoint the message was for.
 *
 * Context: May sleep. Takes rx->lock: closing sets ->dead before it takes that, and empties the
 * matcher under it, so ->dead is read under it.
 */
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run)
{
	struct treadle_ep *ep;
	bool dead;

	spin_lock(&rx->lock);
	dead = recv->cmd && READ_ONCE(recv->cmd->ep->dead);
	if (unlikely(recv->kind == TREADLE_RECV_MULTI))
		treadle_multi_uncancel(recv);
	if (!dead)
		treadle_rx_place_again(rx, recv, run);
	treadle_rx_feed(rx, run);
	ep = shut_ep(rx, run);
	spin_unlock(&rx->lock);
	if (dead)
		treadle_recv_free(recv);
	flush(rx, ep, run);
}

/**
 * treadle_recv_is_long - may issuing a receive compare very many receives and messages?
 * @cmd:	the receive, armed
 *
 * Older receives of the ring are matched before it, and a peek searches the waiting messages.
 *
 * Context: any; takes no lock.
 * Return: true if the owner's worker has to fire it, and not a peer.
 */
bool treadle_recv_is_long(const struct treadle_cmd *cmd)
{
	return !(cmd->d.flags & TREADLE_F_COLLECTIVE) &&
	       (cmd->d.flags & TREADLE_F_PEEK || treadle_rx_behind(cmd->ep->rx));
}
