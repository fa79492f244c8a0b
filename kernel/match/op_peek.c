// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: looking at messages that wait, claiming and discarding them
 *
 * fi_tagged(3), FI_PEEK, FI_CLAIM, FI_DISCARD. A claimed message has left the queue: no other
 * receive matches it, and its sender can't take it back. It is kept by the context of the claim,
 * and stays charged to the ring.
 */
#include <linux/sched/signal.h>

#include "match/traced.h"

#define PEEKS (TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_DISCARD)

/**
 * treadle_peek_validate - validate the flags PEEK, CLAIM and DISCARD of a receive
 * @d:	its descriptor
 *
 * Context: any.
 * Return: 0, or -EINVAL: a combination without meaning, or a buffer where no message is received.
 */
int treadle_peek_validate(const struct treadle_desc *d)
{
	switch (d->flags & PEEKS) {
	case 0:
	case TREADLE_F_CLAIM:
		return 0;
	case TREADLE_F_PEEK:
	case TREADLE_F_PEEK | TREADLE_F_CLAIM:
	case TREADLE_F_PEEK | TREADLE_F_DISCARD:
	case TREADLE_F_CLAIM | TREADLE_F_DISCARD:
		return d->iov_count ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

#define PEEK_LOOKS 4096u /* messages looked at under one hold of the lock */

/* The oldest message that matches @recv, or NULL. Drops rx->lock, and may sleep then. */
static struct treadle_match_msg *look(struct treadle_rx *rx, const struct treadle_recv *recv,
				      struct treadle_run *run) __must_hold(&rx->lock)
{
	struct treadle_match *match = &rx->match[TREADLE_TAGGED];
	struct treadle_match_place mark;
	struct treadle_match_msg *m;
	u64 returned = rx->returned;
	u32 looks = PEEK_LOOKS;

	lockdep_assert_held(&rx->lock);
	treadle_match_mark_init(&mark);
	while (!(m = treadle_match_seek(match, &recv->m, &mark, &looks)) &&
	       treadle_match_marked(&mark)) {
		spin_unlock(&rx->lock);
		treadle_run_pause(run);
		spin_lock(&rx->lock);
		/*
		 * A message may have come back to a place that was passed: begin anew. Messages
		 * come back only when an endpoint of this process closes, so this ends.
		 */
		if (rx->returned != returned)
			treadle_match_unmark(&mark);
		returned = rx->returned;
		if (fatal_signal_pending(current)) {
			treadle_match_unmark(&mark);
			break;
		}
		looks = PEEK_LOOKS;
	}
	return m;
}

/*
 * The message that a peek, or the use of a claim, means; or NULL. Drops rx->lock, and may sleep
 * then.
 */
static struct treadle_msg *find(struct treadle_rx *rx, const struct treadle_recv *recv,
				struct treadle_run *run)
{
	const struct treadle_match_recv claimed = {
		.node = { .tag = recv->context, .src = TREADLE_SRC_ANY },
	};
	struct treadle_match_msg *m;

	lockdep_assert_held(&rx->lock);
	if (recv->flags & TREADLE_F_PEEK) {
		treadle_rx_take(rx, NULL, run); /* older receives match first */
		m = look(rx, recv, run);
	} else {
		m = treadle_match_find(&rx->match[TREADLE_CLAIMED], &claimed);
	}
	return m ? container_of(m, struct treadle_msg, m) : NULL;
}

/* Where a message was before it was claimed. */
struct unclaimed {
	struct treadle_match_place place;
	u64 seq;
};

/*
 * Move @msg to the matcher of claimed messages, where the key is @context. msg->m.tag stays as it
 * is: a peek that has found @msg reads it after dropping rx->lock.
 */
static void claim(struct treadle_rx *rx, struct treadle_msg *msg, u64 context,
		  struct unclaimed *was)
{
	lockdep_assert_held(&rx->lock);
	was->seq = treadle_match_keep_place(&msg->m, &was->place);
	treadle_rx_dequeue(rx, msg, NULL);
	treadle_match_keep_as(&rx->match[TREADLE_CLAIMED], &msg->m, context);
	msg->claimed = true;
}

/*
 * Undo a claim that can't be reported, as its endpoint has closed: the next receive may match the
 * message, at its old place. Returns an error if its sender has closed meanwhile: then the message
 * is in no queue, and the caller completes the sender's command with that error.
 */
static int unclaim(struct treadle_rx *rx, struct treadle_msg *msg, struct unclaimed *was,
		   struct treadle_run *run) __must_hold(&rx->lock)
{
	int ret = 0;

	lockdep_assert_held(&rx->lock);
	treadle_match_remove_msg(&rx->match[TREADLE_CLAIMED], &msg->m);
	treadle_match_lend_at(&msg->m, &was->place, was->seq);
	msg->claimed = false;
	treadle_msg_give_back(rx, msg, run);
	if (msg->queued && msg->cmd)
		ret = msg->ops->park(msg);
	if (ret) {
		msg->queued = false; /* not parked */
		treadle_rx_dequeue(rx, msg, NULL);
	}
	return ret;
}

/* Report that @msg was claimed, or undo the claim. */
static void notify_claim(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_msg *msg,
			 struct unclaimed *was, struct treadle_run *run)
{
	bool notified = treadle_recv_notify(recv, ep, msg, 0, run);
	struct treadle_rx *rx = ep->rx;
	int ret = 0;

	spin_lock(&rx->lock);
	/*
	 * A message without a receive is still claimed, or has failed: closing takes rx->lock
	 * after it has set dead, and then fails claimed messages.
	 */
	if (!notified && !msg->recv && !READ_ONCE(msg->to->dead))
		ret = unclaim(rx, msg, was, run);
	else
		treadle_match_unmark(&was->place);
	spin_unlock(&rx->lock);
	if (!notified)
		treadle_recv_free(recv);
	if (ret) {
		msg->ops->complete(msg, ret, run);
		treadle_msg_put(msg);
	}
}

/**
 * treadle_peek_issue - execute a receive with PEEK, CLAIM or DISCARD
 * @recv:	the receive of a command; consumed
 * @ep:	its endpoint, held by the caller
 * @run:	takes the delivery of a claimed message
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_peek_issue(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_run *run)
{
	u32 what = recv->flags & PEEKS;
	struct treadle_rx *rx = ep->rx;
	struct unclaimed was;
	struct treadle_msg *msg;

	spin_lock(&rx->lock);
	msg = find(rx, recv, run);
	/*
	 * A command that fired before its endpoint closed must take no message: it may be for
	 * another endpoint. Closing sets dead, and then takes rx->lock: if dead is not seen here,
	 * this came first.
	 */
	if (unlikely(READ_ONCE(ep->dead)))
		msg = NULL;
	if (msg) {
		kref_get(&msg->ref);
		if (what == (TREADLE_F_PEEK | TREADLE_F_CLAIM))
			claim(rx, msg, recv->context, &was);
		else if (what != TREADLE_F_PEEK)
			treadle_rx_dequeue(rx, msg, what == TREADLE_F_CLAIM ? recv : NULL);
		if (!(what & TREADLE_F_PEEK))
			msg->recv = recv; /* the claim is used up */
		if (what == TREADLE_F_CLAIM && trace_treadle_match_enabled())
			treadle_trace_match(msg, true);
	}
	spin_unlock(&rx->lock);
	if (!msg) {
		treadle_recv_complete(recv, ep, NULL, -ENOMSG, run);
		return;
	}
	if (what == TREADLE_F_CLAIM) {
		/*
		 * The message may be for another endpoint of the ring. Closing that one does not
		 * wait for this doorbell, so the copy must not use the doorbell's own address
		 * space (run->own): a job copies.
		 */
		msg->job.ctx = rx->obj.ctx;
		treadle_run_add(run, &msg->job);
	} else {
		recv->one.len = U64_MAX; /* so that the completion has the length of the message */
		if (what == (TREADLE_F_PEEK | TREADLE_F_CLAIM))
			notify_claim(recv, ep, msg, &was, run);
		else
			treadle_recv_complete(recv, ep, msg, 0, run);
	}
	if (what & TREADLE_F_DISCARD) {
		if (msg->cmd)
			msg->ops->complete(msg, 0, run);
		treadle_msg_put(msg); /* the reference of the queue */
	}
	treadle_msg_put(msg);
	treadle_rx_grow(rx, TREADLE_CLAIMED, run);
}
